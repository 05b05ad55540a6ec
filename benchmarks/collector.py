"""What recording a training run costs: time, bytes, memory, and the import.

    python benchmarks/collector.py [--steps 2000] [--growth-steps 100000] [--quick]

Needs torch. DDP and FSDP2 train on two gloo ranks of this machine in blocks that take turns, with and without the
collector; the difference of neighbours is what it costs, whatever else the machine does meanwhile. No device: what
events and the allocator's figures cost on one is not measured here.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from measure import Report, run, version_of

RANKS = Path(__file__).with_name("collector_ranks.py")
STEP_NS = 200_000_000  # the step that the hooks' target is a share of
IMPORTS = 15
# one-sided Student quantiles at 95 %, by degrees of freedom
T95 = {1: 6.31, 2: 2.92, 3: 2.35, 4: 2.13, 5: 2.02, 7: 1.89, 10: 1.81, 15: 1.75, 20: 1.72, 30: 1.70}


def quantile(freedom: int) -> float:
    """Never below the exact one."""
    return next((T95[known] for known in sorted(T95, reverse=True) if known <= freedom), T95[1])


def upper_bound(differences: Sequence[float]) -> float:
    """Of the mean difference, with 95 % confidence."""
    error = statistics.stdev(differences) / math.sqrt(len(differences))
    return statistics.fmean(differences) + quantile(len(differences) - 1) * error


def imports(report: Report) -> None:
    """The face alone, in fresh interpreters that have its byte code."""
    code = "import time; t = time.perf_counter(); import rankscope; print(time.perf_counter() - t)"
    times = [float(run([sys.executable, "-c", code]).output) for _ in range(IMPORTS)]
    report.content["import_s"] = times
    report.target("import rankscope: median", statistics.median(times) * 1e3, 50, at_least=False, unit="ms")


def interleaved(report: Report, parallel: str, steps: int, scratch: Path) -> None:
    """Blocks with and without, on two ranks; each pair of neighbours gives one difference."""
    out = scratch / f"{parallel}.json"
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    words = [sys.executable, *launcher, RANKS, "blocks", "--parallel", parallel, "--steps", str(steps), "--out", out]
    run([*words, "--run-dir", scratch / parallel], OMP_NUM_THREADS="1", RANKSCOPE_QUIET="1")
    found: dict[str, Any] = json.loads(out.read_text())
    differences = [on / off - 1 for off, on in found["pairs"]]
    report.content[parallel] = {**found, "differences": differences}
    step_ms = statistics.median(off for off, _ in found["pairs"]) * 1e3
    print(
        f"{parallel}: {found['steps']} steps of {step_ms:.1f} ms in {2 * len(differences)} blocks; with the collector "
        f"{statistics.fmean(differences):+.2%} (median {statistics.median(differences):+.2%}), its own account "
        f"{found['share']:.2%}",
        flush=True,
    )
    report.target(
        f"{parallel}: time in hooks, of a 200 ms step", found["hooks_ns_a_step"] / STEP_NS * 100, 0.2, at_least=False,
        unit="%",
    )  # fmt: skip
    report.target(
        f"{parallel}: with against without, upper 95 % bound", upper_bound(differences) * 100, 1, at_least=False, unit="%"
    )
    report.target(
        f"{parallel}: lines of a rank per 1,000 steps", found["bytes_a_step"] / 1e3, 1.5, at_least=False, unit="MB"
    )


def growth(report: Report, steps: int, scratch: Path) -> None:
    """One rank for very many steps: memory and bytes of the second half against the first."""
    out = scratch / "growth.json"
    words = [sys.executable, RANKS, "growth", "--steps", str(steps), "--out", out, "--run-dir", scratch / "growth"]
    run(words, OMP_NUM_THREADS="1", RANKSCOPE_QUIET="1")
    found: dict[str, Any] = json.loads(out.read_text())
    report.content["growth"] = found
    rss = found["rss_bytes"]
    report.target(
        f"{steps:,} steps: resident memory, second half", (rss[-1] - rss[len(rss) // 2]) / 1e6, 2, at_least=False, unit="MB"
    )
    report.target(
        f"{steps:,} steps: bytes a step, second half against first", found["second_half"] / found["first_half"], 1.05,
        at_least=False,
    )  # fmt: skip
    report.target(
        f"{steps:,} steps: bytes of a rank per 1,000 steps", found["folder_bytes"] / steps / 1e3, 1.5, at_least=False,
        unit="MB",
    )  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print beside the targets, keep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=2_000, help="of each interleaved run (default: 2,000)")
    parser.add_argument("--growth-steps", type=int, default=100_000)
    parser.add_argument("--quick", action="store_true", help="few steps: shows that it runs, says nothing")
    args = parser.parse_args(arguments)
    steps, growth_steps = (80, 4_000) if args.quick else (args.steps, args.growth_steps)
    report = Report("collector", {"torch": version_of("torch"), "device": "none: gloo on the CPU"})
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        imports(report)
        for parallel in ("ddp", "fsdp2"):
            interleaved(report, parallel, steps, scratch)
        growth(report, growth_steps, scratch)
    report.write(quick=args.quick)


if __name__ == "__main__":
    main()
