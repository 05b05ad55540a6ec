"""The trainings that benchmarks/collector.py measures; started by it."""

from __future__ import annotations

import argparse
import json
import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

import rankscope
from rankscope.collector.run_dir import MANIFEST, Manifest, rank_folders

BLOCK = 20  # steps
SETTLING = 5  # steps of each block that are not counted: the other block's last effects, DDP's learning passes
LAYERS, WIDTH, BATCH = 12, 512, 128
TRIM = 0.1  # of a block's steps, at each end: another process's time slice is not ours


def training(parallel: str) -> Callable[[], Any]:
    """One step of a model of a dozen layers, as a function."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(*[torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU()) for _ in range(LAYERS)])
    if parallel == "ddp":
        trained: Any = torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=4)
    elif parallel == "fsdp2":
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        mesh = init_device_mesh("cpu", (dist.get_world_size(),))
        for layer in model:
            fully_shard(layer, mesh=mesh)
        trained = fully_shard(model, mesh=mesh)
    else:
        trained = model
    optimizer = torch.optim.AdamW(trained.parameters(), lr=1e-4)
    rows = torch.utils.data.TensorDataset(torch.randn(1 << 12, WIDTH))
    loader = torch.utils.data.DataLoader(rows, batch_size=BATCH)
    batches: Any = iter(())

    def step() -> Any:
        nonlocal batches
        try:
            (batch,) = next(batches)
        except StopIteration:
            batches = iter(loader)
            (batch,) = next(batches)
        loss = trained(batch).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    return step


def trimmed_mean(times: list[float]) -> float:
    cut = int(len(times) * TRIM)
    kept = sorted(times)[cut : len(times) - cut]
    return sum(kept) / len(kept)


def block(step: Callable[[], Any], recording: Any) -> float:
    """Seconds a step, in a block with a recording or without."""
    if recording is not None:
        recording.start()
    times = []
    for _ in range(BLOCK):
        began = time.perf_counter()
        loss = step()
        if recording is not None:
            recording.log(loss=loss, tokens=BATCH)
            recording.step()
        times.append(time.perf_counter() - began)
    if recording is not None:
        recording.stop()
    dist.barrier()
    return trimmed_mean(times[SETTLING:])


def blocks(args: argparse.Namespace) -> None:
    """Pairs of blocks in an order that chance chooses, the same on all ranks."""
    dist.init_process_group("gloo")
    step = training(args.parallel)
    for _ in range(2 * SETTLING):
        step()
    # a budget of everything: thinned out, it would be cheaper than what is to be measured
    recording = rankscope.profile(args.run_dir, budget_share=1.0)
    chance = random.Random(0)
    pairs = []
    for _ in range(max(2, args.steps // (2 * BLOCK))):
        first = chance.random() < 0.5
        pair = {on: block(step, recording if on else None) for on in (first, not first)}
        pairs.append((pair[False], pair[True]))
    if dist.get_rank() == 0:
        args.out.write_text(json.dumps({"pairs": pairs, "steps": 2 * BLOCK * len(pairs), **account(args.run_dir)}))
    dist.destroy_process_group()


def account(run_dir: str) -> dict[str, float]:
    """What the collector says of itself, and what rank 0 left, over all blocks."""
    folders = [Path(folder.path) for folder in rank_folders(run_dir) if folder.rank == 0]
    manifests = [Manifest.from_json((folder / MANIFEST).read_text()) for folder in folders]
    steps = sum(manifest.steps for manifest in manifests)
    own = [manifest.overhead for manifest in manifests]
    lines = sum(path.stat().st_size for folder in folders for path in folder.glob("*.jsonl"))
    return {
        "hooks_ns_a_step": sum(kept["hooks_counted_ns"] + kept["hooks"] * kept["unseen_ns_per_hook"] for kept in own) / steps,
        "hooks_a_step": sum(kept["hooks"] for kept in own) / steps,
        "share": sum(kept["share"] * kept["step_with_ns"] for kept in own) / sum(kept["step_with_ns"] for kept in own),
        "bytes_a_step": lines / steps,
        "start_ns": sum(kept["start_ns"] for kept in own) / len(own),
    }


def growth(args: argparse.Namespace) -> None:
    """Very many small steps of one process; resident memory ten times on the way."""
    model = torch.nn.Linear(8, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    batch = torch.randn(4, 8)
    rss: list[int] = []
    sizes: list[int] = []
    part = args.steps // 10
    with rankscope.profile(args.run_dir, budget_share=1.0) as p:
        for number in range(args.steps):
            loss = model(batch).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            p.log(loss=loss, tokens=4)
            p.step()
            if (number + 1) % part == 0:
                time.sleep(2.5)  # for the writer
                rss.append(int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE"))
                sizes.append(folder_bytes(args.run_dir))
    half = len(sizes) // 2 - 1
    found = {
        "rss_bytes": rss, "sizes": sizes, "folder_bytes": folder_bytes(args.run_dir),
        "first_half": (sizes[half] - sizes[0]) / half, "second_half": (sizes[-1] - sizes[half]) / (len(sizes) - 1 - half),
    }  # fmt: skip
    args.out.write_text(json.dumps(found))


def folder_bytes(run_dir: str) -> int:
    return sum(path.stat().st_size for path in Path(run_dir).rglob("*") if path.is_file())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["blocks", "growth"])
    parser.add_argument("--parallel", default="ddp")
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--run-dir", required=True)
    args = parser.parse_args()
    torch.set_num_threads(1)
    (blocks if args.what == "blocks" else growth)(args)


if __name__ == "__main__":
    main()
