"""Open the run in Holistic Trace Analysis (HTA) as well, and say why its figures differ from rankscope's.

Three columns a rank: HTA's definition, exact; the same with HTA's arithmetic; what HTA itself says. Below them stands why
they differ. Needs the extra `hta`, or --python.

examples:
  rankscope hta traces/                                     the last step dropped, as HTA does unless told otherwise
  rankscope hta traces/ --last-step --ranks 0               with it, and one rank only
  rankscope hta traces/ --python .venv-hta/bin/python       HTA installed apart from rankscope
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rankscope.reports.names import shortened, visible
from rankscope.ui import output
from rankscope.ui.commands.report import loaded, selection

if TYPE_CHECKING:
    from rankscope.analyzers.interop.hta import Breakdown
    from rankscope.analyzers.interop.hta_figures import Figures
    from rankscope.analyzers.trace.model import Trace

FIGURES = ("kernel_time_us", "compute_time_us", "non_compute_time_us", "idle_time_us")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    selection(parser)
    parser.add_argument("--last-step", action="store_true", help="HTA's include_last_profiler_step")
    parser.add_argument("--python", metavar="PATH", help="an interpreter that has HTA (default: this one)")


def run(args: argparse.Namespace) -> int:
    """Compare."""
    from rankscope.analyzers.interop.hta_figures import figures

    found = loaded(args)
    files = {rank.rank: os.path.abspath(rank.path) for rank in found.analysis.run.ranks}
    theirs = figures(files, last_step=args.last_step, python=args.python)
    lines = [f"HTA {theirs.version}" if theirs.version else "HTA gave no figure", ""]
    for rank, trace in found.traces():
        lines += [f"rank {rank}", *_compared(trace, theirs, rank, args.last_step), ""]
    output.put("\n".join(lines), None)
    return 0


def _compared(trace: Trace, theirs: Figures, rank: int, last_step: bool) -> Iterator[str]:
    from rankscope.analyzers.interop.hta import breakdown, overlap_percent

    exact = breakdown(trace, last_step=last_step, rounded=False)
    rounded = breakdown(trace, last_step=last_step)
    own = theirs.breakdown.get(rank)
    if exact is None or rounded is None:
        yield "  no device event: HTA's figures are about devices only"
        return
    yield f"  {'':<20}{'exact':>18}{'as HTA rounds':>18}{'HTA':>18}"
    for name in FIGURES:
        values = (getattr(exact, name), getattr(rounded, name), None if own is None else getattr(own, name))
        yield f"  {name:<20}" + "".join("n/a".rjust(18) if v is None else f"{v:>18,.3f}" for v in values)
    shares = (overlap_percent(trace, last_step=last_step), None, theirs.overlap_percent.get(rank))
    yield f"  {'overlap_percent':<20}" + "".join("n/a".rjust(18) if v is None else f"{v:>18.2f}" for v in shares)
    if rank in theirs.failures:
        yield f"  - HTA fails on this rank: {visible(theirs.failures[rank])}"
    for reason in _reasons(trace, exact, rounded, own, last_step):
        yield f"  - {reason}"


def _reasons(
    trace: Trace, exact: Breakdown, rounded: Breakdown, own: Breakdown | None, last_step: bool
) -> Iterator[str]:
    """Every difference in a sentence."""
    from rankscope.analyzers.interop import hta
    from rankscope.analyzers.quantities import duration, share

    idle = rounded.idle_time_us - exact.idle_time_us
    if rounded != exact:
        more = share(idle / exact.idle_time_us) if exact.idle_time_us else "n/a"
        yield f"HTA rounds every event inwards to whole microseconds: idle becomes {idle:,.3f} us longer ({more})"
    if rounded.non_compute_time_us < 0:
        yield "rounded so, the parts are more than the whole: HTA stops with an AssertionError"
    if not last_step and (left := hta.last_step_us(trace)):
        yield f"the last step is left out ({left:,.3f} us of device time); --last-step includes it"
    for other in hta.counted_otherwise(trace):
        name = shortened(visible(other.name), 60)
        yield f"{duration(other.total_ns)} of {other.ours} here is {other.theirs} there, most of it {name}"
    if rows := hta.synchronisations(trace):
        yield f"HTA counts {rows:,} synchronisation rows on device tracks as work; they are nothing here"
    if own is not None and own != rounded and not rows:
        yield "HTA counts every event that names a stream, host events too; here only kernels, copies and fills count"
