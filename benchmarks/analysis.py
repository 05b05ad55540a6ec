"""A large run on a small machine: 64 ranks of 200,000 events each, cold and warm; memory at 8 and at 64 ranks.

    python benchmarks/analysis.py [--ranks 64] [--events 200000] [--jobs 2] [--quick]

Traces are simulated, then grown into benchmarks/.traces (about 4 GB); the ranks of a run keep meeting in the same
collectives.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

from grow import Template, copies_for, grow
from measure import ROOT, Report, Sample, report_command, run

from rankscope.simulator import Scenario, faults, simulate

SLOW_RANK = 5
STEPS = 10  # ProfilerSteps of each grown trace


def grown_run(folder: Path, ranks: int, events: int) -> Path:
    """A folder with one trace a rank; made on first use, marked when whole."""
    done = folder / ".done"
    if done.exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    scenario = Scenario(ranks=ranks, steps=4, faults=(faults.slow_compute(SLOW_RANK, 3_000_000),))
    templates = [Template.of(trace.text()) for trace in simulate(scenario).traces]
    period = max(template.span_us for template in templates)
    copies = min(copies_for(template, events=events) for template in templates)
    for rank, template in enumerate(templates):
        written = grow(
            template, folder / f"rank-{rank}.json", copies, rank=rank, world=ranks, steps=STEPS, period_us=period
        )
        print(f"\rrank {rank}: {written:,} events", end="", flush=True)
    print()
    done.touch()
    return folder


def report(folder: Path, scratch: Path, jobs: int) -> Sample:
    """The whole command line, as a user runs it."""
    for path in folder.glob("*.json"):
        path.read_bytes()
    return run(report_command(folder, scratch, "--cache-dir", scratch / "cache", "--jobs", str(jobs)))


def show(label: str, sample: Sample) -> None:
    """One line a run."""
    memory = (
        f"{sample.tree_pss_bytes / 1e6:,.0f} MB in all processes, {sample.peak_rss_bytes / 1e6:,.0f} MB in the largest"
    )
    print(f"{label}: {sample.wall_s:.2f} s wall, {sample.cpu_s:.2f} s CPU, {memory}", flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--traces", type=Path, default=ROOT / "benchmarks/.traces", help="where grown traces are kept")
    parser.add_argument("--quick", action="store_true", help="a twentieth of the events")
    args = parser.parse_args(arguments)
    events = args.events // 20 if args.quick else args.events
    results = Report("analysis")
    results.content |= {"ranks": args.ranks, "events_per_rank": events, "jobs": args.jobs}
    cold: dict[int, Sample] = {}
    warm: dict[int, Sample] = {}
    for ranks in sorted({min(8, args.ranks), args.ranks}):
        folder = grown_run(args.traces / f"run-{ranks}x{events}", ranks, events)
        with tempfile.TemporaryDirectory() as scratch:
            cold[ranks], warm[ranks] = (report(folder, Path(scratch), args.jobs) for _ in range(2))
        show(f"{ranks} ranks cold", cold[ranks])
        show(f"{ranks} ranks warm", warm[ranks])
        results.keep(f"{ranks} ranks", [cold[ranks], warm[ranks]])
    few, many = min(cold), max(cold)
    results.target(f"{many} ranks cold: wall", cold[many].wall_s, 60, at_least=False, unit="s")
    results.target(f"{many} ranks warm: wall", warm[many].wall_s, 5, at_least=False, unit="s")
    results.target(f"{many} ranks: resident memory", cold[many].tree_pss_bytes / 1e9, 1.5, at_least=False, unit="GB")
    growth = cold[many].tree_pss_bytes / cold[few].tree_pss_bytes - 1
    results.target(f"memory from {few} to {many} ranks: growth", growth, 0.1, at_least=False, unit="")
    results.write(quick=args.quick)


if __name__ == "__main__":
    main()
