"""Trains nothing on gloo ranks, a session after the other: windows by schedule, on request, because steps became slower."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist

import rankscope
from rankscope.collector import windows

# the steps are short: what a job of hours can wait for is waited for less long
windows.POLL_S, windows.AHEAD_S = 0.1, 1.5


def run(folder: Path, steps: int, slower_from: int | None = None, ask_at: int | None = None, **options: object) -> None:
    x = torch.ones(8)
    with rankscope.profile(folder, **options) as p:  # type: ignore[arg-type]
        for step in range(steps):
            if step == ask_at and dist.get_rank() == 0:
                (folder / "request-window").write_text("steps=2")
            time.sleep(0.04 if slower_from is not None and step >= slower_from else 0.01)
            dist.all_reduce(x.add(1))
            p.step()


def main() -> None:
    root = Path(sys.argv[1])
    dist.init_process_group("gloo")
    no_changes = {"torch_profiler": {"changes": False}}
    run(root / "schedule", 20, mode="window", windows={"first": 4, "steps": 2, "every": 8}, probes=no_changes)
    run(root / "request", 330, ask_at=10, probes=no_changes)
    run(root / "change", 190, slower_from=90)
    run(root / "full", 12, mode="full", windows=8)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
