"""What a window of the deep tier costs the training that it is opened in, beside PyTorch's own profiler used by hand.

The reference trainer on 2 gloo ranks, in blocks of 20 steps that take turns: without a profiler, with `torch.profiler` and
its export in `on_trace_ready` (bare), and with rankscope's windows: traces kept until the end of the run (the default on
CPUs), written at once by a child (on request), written at once on the training thread. A step takes what its slower rank
took. Beside a window are the step before it and the two after it.

    python benchmarks/windows.py            12 rounds of DDP and FSDP2, some 10 minutes on 2 cores
    python benchmarks/windows.py --quick    3 rounds of DDP; nothing is kept
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import measure

BLOCK, FIRST, LAST = 20, 8, 10  # steps of a block, of its window
BESIDE = (FIRST - 1, LAST + 1, LAST + 2)
JOB = ["--workers", "0", "--batch", "16", "--length", "64", "--layers", "4", "--log-every", "100000"]
SETTINGS: dict[str, dict[str, Any]] = {
    "kept": {},
    "child": {"write_now": True},
    "in place": {"write_now": True, "fork": False},
}
OTHER_PROBES = ("clock", "hang", "flight_recorder", "host", "nvml", "infiniband", "nccl_log", "memory_snapshot")


# ---- in the ranks


@contextmanager
def watched(how: str, folder: Path) -> Iterator[Any]:
    """What is called after each step of a block."""
    import torch

    import rankscope

    if how == "none":
        yield lambda: None
    elif how == "bare":
        name = str(folder / f"bare-{os.environ['RANK']}.json.gz")
        with torch.profiler.profile(
            activities=[torch.profiler.ProfilerActivity.CPU],
            schedule=torch.profiler.schedule(wait=FIRST - 1, warmup=1, active=LAST - FIRST + 1, repeat=1),
            on_trace_ready=lambda profiler: profiler.export_chrome_trace(name),
            record_shapes=True,
        ) as profiler:
            yield profiler.step
    else:
        probes = {"torch_profiler": {"changes": False, **SETTINGS[how]}, **dict.fromkeys(OTHER_PROBES, False)}
        windows = {"first": FIRST, "steps": LAST - FIRST + 1}
        with rankscope.profile(folder / "run", mode="window", windows=windows, probes=probes) as p:
            yield p.step


def work(parallel: str, rounds: int, folder: Path) -> None:
    """All blocks of one way of sharing the work; rank 0 prints the steps' times, the slower rank's of each."""
    import torch
    import torch.distributed as dist

    from rankscope.kernels.trainer import train
    from rankscope.kernels.trainer.options import parse

    device = train.begin()
    order = ["none", "bare", *SETTINGS]
    steps = (rounds + 1) * len(order) * BLOCK
    job = train.Training(parse([*JOB, "--steps", str(steps), "--parallel", parallel]), device)
    batches = iter(job.loader(range(steps)))
    found: dict[str, list[list[float]]] = {how: [] for how in order}
    for number in range(rounds + 1):
        for how in order[number % len(order) :] + order[: number % len(order)]:
            dist.barrier()
            times = []
            with watched(how, folder / f"{number}-{how.replace(' ', '-')}") as ended:
                (folder / f"{number}-{how.replace(' ', '-')}").mkdir(exist_ok=True)
                for _ in range(BLOCK):
                    began = time.perf_counter()
                    job.step(next(batches))
                    ended()
                    times.append(time.perf_counter() - began)
            slower = torch.tensor(times)
            dist.all_reduce(slower, op=dist.ReduceOp.MAX)
            if number:  # the first round compiles and loads
                found[how].append(slower.tolist())
    if dist.get_rank() == 0:
        print(json.dumps(found))
    dist.barrier()
    dist.destroy_process_group()


# ---- outside


def launch(parallel: str, rounds: int) -> dict[str, list[list[float]]]:
    """The steps' times in seconds, by contender and block."""
    environment = {**os.environ, "PYTHONPATH": str(measure.ROOT), "OMP_NUM_THREADS": "1", "RANKSCOPE_QUIET": "1"}
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
        command += [__file__, "--worker", parallel, str(rounds), folder]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise measure.Failed(done.stderr[-3000:])
    return json.loads(done.stdout.strip().splitlines()[-1])


def judged(times: dict[str, list[list[float]]]) -> dict[str, dict[str, float]]:
    """Of each contender: the median step in a window, and the longest step beside a window over its block's median."""
    result = {}
    for how, blocks in times.items():
        inside = [block[step] for block in blocks for step in range(FIRST, LAST + 1)]
        beside = []
        for block in blocks:
            usual = statistics.median(block[step] for step in range(2, BLOCK) if not FIRST <= step <= LAST)
            beside.append(max(block[step] for step in BESIDE) / usual)
        result[how] = {
            "inside_ms": statistics.median(inside) * 1e3,
            "beside_median": statistics.median(beside),
            "beside_largest": max(beside),
        }
    return result


def main() -> int:
    """Measure, print each target beside what was measured, and keep it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="3 rounds of DDP; nothing is kept")
    parser.add_argument("--worker", nargs=3, metavar=("PARALLEL", "ROUNDS", "FOLDER"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        work(given.worker[0], int(given.worker[1]), Path(given.worker[2]))
        return 0
    import torch

    report = measure.Report("windows", {"torch": torch.__version__})
    for parallel in ("ddp",) if given.quick else ("ddp", "fsdp"):
        times = launch(parallel, 3 if given.quick else 12)
        found = judged(times)
        report.content["samples"][parallel] = {"seconds": times, "judged": found}
        print(f"{parallel}: step in a window, and the longest beside one over the median (median of windows, largest)")
        for how, figures in found.items():
            beside = f"{figures['beside_median']:.2f} x, {figures['beside_largest']:.2f} x"
            print(f"  {how:9} {figures['inside_ms']:8.1f} ms   {beside}")
        over = found["kept"]["inside_ms"] / found["bare"]["inside_ms"]
        report.target(f"{parallel}: step in a window over the bare profiler's", over, 1.05, at_least=False)
        report.target(
            f"{parallel}: longest step beside a window over the median", found["kept"]["beside_largest"], 1.2, at_least=False
        )
        quiet = found["none"]["beside_largest"]
        print(f"       the same steps of blocks without any profiler: {quiet:.3g} x")
    report.write(quick=given.quick)
    return int(not all(target["met"] for target in report.content["targets"]))


if __name__ == "__main__":
    sys.exit(main())
