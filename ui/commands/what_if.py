"""Say what the step would take if something were otherwise: no slow rank, a faster network, a faster loader.

PATH is what `rankscope report` takes, or the per-operation parquet of a straggler study. The run is replayed: every rank's
own work in its order, collectives when all of their ranks have come. How far the unchanged replay is from what was measured
is printed with every prediction.

examples:
  rankscope what-if traces/                            the slowdown, its parts, and what the usual fixes return
  rankscope what-if traces/ --fix 'rank 3 = typical'   that rank's own work as long as the middle rank's
  rankscope what-if traces/ --fix 'network x 2' --fix 'data_loading x 0.5'
  rankscope what-if traces/ --format json | jq .savings

fixes: TARGET = typical | balanced, or TARGET x FACTOR. Targets: rank N, stage N, all, network, communication, or a kind of
operation (compute, data_loading, checkpoint, copies, host, idle, all_reduce, ...)

exit status: 0 done, 2 bad usage, or nothing that can be replayed
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

from rankscope.ui import output
from rankscope.ui.commands.report import loaded, selection

if TYPE_CHECKING:
    from rankscope.analyzers.what_if.critical_path import CriticalPath
    from rankscope.analyzers.what_if.fixes import Saving
    from rankscope.analyzers.what_if.job import Job
    from rankscope.analyzers.what_if.slowdown import Slowdown

SHOWN: Final = 8  # parts of each list in the terminal
WORTH: Final = 0.005  # of the ideal step; smaller parts are not printed


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    selection(parser)
    add = parser.add_argument
    add("--fix", action="append", default=[], metavar="FIX", help="a fix to try; may be given several times")
    add("--format", choices=("terminal", "json"), default="terminal", help="default: terminal")
    add("-o", "--output", metavar="FILE", help="write there instead of to standard output")


def run(args: argparse.Namespace) -> int:
    """Replay and predict."""
    from rankscope.analyzers.what_if.critical_path import critical_path
    from rankscope.analyzers.what_if.fixes import saving, usual
    from rankscope.analyzers.what_if.slowdown import slowdown

    job = _job(args)
    found = slowdown(job)
    fixes = args.fix or usual(job, found.slowest[0] if found.slowest else None)
    savings = [saving(job, fix, found.step_ns, found.replay_error_share) for fix in fixes]
    path = critical_path(job, sorted(job.programs, key=job.measured_ns.__getitem__)[len(job.programs) // 2])
    chain = {"length_ns": path.length_ns, "by_kind_ns": path.by_kind(job), "by_worker_ns": path.by_worker(job)}
    if not args.fix:
        savings.sort(key=lambda one: -one.saved_ns)
    if args.format == "json":
        reason = {} if found.by_stage is not None else {"stage_reason": "the pipeline's layout is not known"}
        content = {"schema_version": 1} | asdict(found) | reason
        content |= {"critical_path": chain, "savings": [asdict(one) for one in savings]}
        output.put(json.dumps(content, indent=1) + "\n", args.output)
    else:
        output.put(_text(found, path, job) + _fixes(savings), args.output)
    return 0


def _job(args: argparse.Namespace) -> Job:
    from rankscope.analyzers.errors import BadSelection
    from rankscope.analyzers.findings import CannotTell
    from rankscope.analyzers.what_if.readers import straggler_parquet
    from rankscope.analyzers.what_if.recorded import job_of
    from rankscope.analyzers.what_if.replay import Deadlock

    try:
        if len(args.paths) == 1 and straggler_parquet.sniff(args.paths[0]):
            return straggler_parquet.read(args.paths[0])
        return job_of(loaded(args).analysis)
    except (CannotTell, Deadlock) as reason:
        raise BadSelection(f"{' '.join(args.paths)} cannot be replayed: {reason}") from None


def _text(found: Slowdown, path: CriticalPath, job: Job) -> str:
    from rankscope.analyzers.quantities import duration, share
    from rankscope.reports.names import visible

    lines = [
        f"The step takes {duration(found.step_ns)}; with the work in balance it would take {duration(found.ideal_ns)}: "
        f"slowdown {found.slowdown:.3f}.",
        f"  measured {duration(found.measured_ns)}, replayed {duration(found.step_ns)}: "
        f"{share(found.replay_error_share)} apart",
    ]
    if found.worker_share is not None:
        lines.append(f"  of the loss {share(found.worker_share)} goes with {', '.join(found.slowest)} in balance")
    if found.stage_share is not None:
        lines.append(f"  of the loss {share(found.stage_share)} goes with the last stage in balance")
    for title, parts in (("kind of work", found.by_operation), ("worker", found.by_worker), ("stage", found.by_stage)):
        worth = sorted(((v, k) for k, v in (parts or {}).items() if v - 1 >= WORTH), reverse=True)
        if worth:
            lines += ["", f"The step if only one {title} were as it is, over the balanced one:"]
            lines += [f"  {value:.3f}  {visible(name)}" for value, name in worth[:SHOWN]]
    for title, chain in (("kind of work", path.by_kind(job)), ("worker", path.by_worker(job))):
        lines += ["", f"The longest chain, which sets the step, by {title}:"]
        whole = sum(chain.values())
        lines += [
            f"  {share(ns / whole if whole else 0):<8} {visible(name)}" for name, ns in list(chain.items())[:SHOWN]
        ]
    return "\n".join(lines) + "\n"


def _fixes(savings: list[Saving]) -> str:
    from rankscope.analyzers.quantities import duration, share

    lines = ["", "Fixes:", "  saves          of the step  step      fix"]
    for one in savings:
        lines.append(
            f"  {duration(one.saved_ns):<14} {share(one.saved_share):<12} {duration(one.step_ns):<9} {one.fix}"
        )
    return "\n".join(lines) + "\n"
