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
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from rankscope.reports.names import shortened, visible
from rankscope.ui import output
from rankscope.ui.commands.report import loaded, selection

if TYPE_CHECKING:
    from rankscope.analyzers.interop.hta import RankFigures
    from rankscope.analyzers.interop.hta_figures import Figures
    from rankscope.analyzers.trace.model import Trace

HEAVIEST: Final = 3  # kernels shown by name; HTA draws ten
WIDTH: Final = 58
Rows = dict[str, float | None]


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    selection(parser)
    parser.add_argument("--last-step", action="store_true", help="HTA's include_last_profiler_step")
    parser.add_argument("--python", metavar="PATH", help="an interpreter that has HTA (default: this one)")


def run(args: argparse.Namespace) -> int:
    """Compare."""
    from rankscope.analyzers.interop.hta import figures_of
    from rankscope.analyzers.interop.hta_figures import figures

    found = loaded(args)
    files = {rank.rank: os.path.abspath(rank.path) for rank in found.analysis.run.ranks}
    theirs = figures(files, last_step=args.last_step, python=args.python)
    lines = [f"HTA {theirs.version}" if theirs.version else "HTA gave no figure", ""]
    types: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
    for rank, trace in found.traces():
        exact, rounded = (figures_of(trace, last_step=args.last_step, rounded=by_hta) for by_hta in (False, True))
        lines += [f"rank {rank}", *_compared(trace, exact, rounded, theirs, rank, args.last_step), ""]
        for total, one in zip(types, (exact, rounded), strict=True):
            total.update(one.kernel_types)
    if theirs.kernel_types or any(types):
        lines += ["all ranks: get_gpu_kernel_breakdown by what ran at once, us"]
        lines += [*_table(dict(types[0]), dict(types[1]), dict(theirs.kernel_types)), ""]
    output.put("\n".join(lines), None)
    return 0


def _compared(
    trace: Trace, exact: RankFigures, rounded: RankFigures, theirs: Figures, rank: int, last_step: bool
) -> Iterator[str]:
    own = theirs.ranks.get(rank)
    if rounded.breakdown is None:
        yield "  no device event: HTA's figures are about devices only"
        return
    names = list(rounded.kernels)[:HEAVIEST]
    yield from _table(_rows(exact, names), _rows(rounded, names), {} if own is None else _rows(own, names))
    for words in theirs.failures.get(rank, ()):
        yield f"  - HTA fails on this rank: {visible(words)}"
    for reason in _reasons(trace, exact, rounded, own, last_step):
        yield f"  - {reason}"


def _rows(of: RankFigures, names: list[str]) -> Rows:
    """Each figure under HTA's word for it."""
    rows: Rows = {}
    if of.breakdown is not None:
        rows |= {name: getattr(of.breakdown, name) for name in of.breakdown.__slots__}
    rows["overlap_percent"] = of.overlap_percent
    rows |= {f"idle on streams: {cause}, us": us for cause, us in of.idle.items()}
    if of.launches is not None:
        figures = of.launches.__slots__ if of.launches.pairs else ("pairs",)
        rows |= {f"launches: {name}": getattr(of.launches, name) for name in figures}
    if of.kernels:
        rows |= {
            f"{shortened(visible(name), WIDTH - 8)}, us": of.kernels[name].sum_us
            for name in names
            if name in of.kernels
        }
        rows["all kernels, us"] = sum(kernel.sum_us for kernel in of.kernels.values())
    return rows


def _table(
    exact: Mapping[str, float | None], rounded: Mapping[str, float | None], own: Rows | dict[str, float]
) -> Iterator[str]:
    yield f"  {'':<{WIDTH}}{'exact':>18}{'as HTA rounds':>18}{'HTA':>18}"
    for name in dict.fromkeys([*rounded, *exact, *own]):
        values = (column.get(name) for column in (exact, rounded, own))
        yield f"  {name:<{WIDTH}}" + "".join(_cell(value, name) for value in values)


def _cell(value: float | None, name: str) -> str:
    if value is None:
        return "n/a".rjust(18)
    return f"{value:>18,.0f}" if name.endswith("pairs") else f"{value:>18,.{2 if 'percent' in name else 3}f}"


# ---- why they differ -------------------------------------------------------------------------------------------------


def _reasons(
    trace: Trace, exact: RankFigures, rounded: RankFigures, own: RankFigures | None, last_step: bool
) -> Iterator[str]:
    """Every difference in a sentence."""
    from rankscope.analyzers.interop import hta
    from rankscope.analyzers.interop.hta_events import synchronisations
    from rankscope.analyzers.quantities import duration

    yield from _of_rounding(exact, rounded)
    if not last_step and (left := hta.last_step_us(trace)):
        yield f"the last step is left out ({left:,.3f} us of device time); --last-step includes it"
    for other in hta.counted_otherwise(trace):
        name = shortened(visible(other.name), 60)
        yield f"{duration(other.total_ns)} of {other.ours} here is {other.theirs} there, most of it {name}"
    yield from _of_launches(trace, last_step)
    if rows := synchronisations(trace):
        yield (
            f"HTA counts synchronisations on device tracks as work (the file has {rows:,}): they are nothing in the first "
            "column, and in the second only those count that name a stream"
        )
    elif own is not None and own.breakdown is not None and own.breakdown != rounded.breakdown:
        yield "HTA counts every event that names a stream, host events too; here only kernels, copies and fills count"


def _of_rounding(exact: RankFigures, rounded: RankFigures) -> Iterator[str]:
    from rankscope.analyzers.quantities import share

    before, after = exact.breakdown, rounded.breakdown
    if before is None or after is None:
        return
    idle = after.idle_time_us - before.idle_time_us
    rounds = "HTA rounds every event inwards to whole microseconds"
    if idle > 0:
        more = share(idle / before.idle_time_us) if before.idle_time_us else "n/a"
        yield f"{rounds}: idle becomes {idle:,.3f} us longer ({more})"
    elif exact.kernels != rounded.kernels or exact.launches != rounded.launches:
        yield rounds
    if after.non_compute_time_us < 0:
        yield "rounded so, the parts are more than the whole: HTA stops with an AssertionError"


def _of_launches(trace: Trace, last_step: bool) -> Iterator[str]:
    from rankscope.analyzers.interop.hta_events import held
    from rankscope.analyzers.quantities import plural

    events = held(trace, last_step=last_step, rounded=False)
    if alone := int((~events.launched).sum()):
        yield (
            f"{plural(alone, 'device event')} without a launch in the file: to HTA the file's first event is their launch, "
            "so that some idle time is host_wait; here no host is waited for"
        )
    if other := int((events.launched & ~events.launching).sum()):
        yield f"{plural(other, 'device event')} launched by calls whose names HTA's launch statistics do not know"
