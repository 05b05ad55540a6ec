"""Print Ascend's own tables of steps, beside rankscope's figures where the traces of the same ranks are there.

Reads `step_trace_time.csv` beside a `trace_view.json` and the cluster's `cluster_step_trace_time.csv`. The tables alone
say how long, not why; `rankscope report` needs the trace_view.json of each rank.

examples:
  rankscope ascend cluster_analysis_output/               the cluster's table by itself
  rankscope ascend profiles/                              tables and traces of all ranks below a folder
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from rankscope.analyzers.errors import NothingToRead
from rankscope.reports.names import visible
from rankscope.ui import output
from rankscope.ui.commands.report import loaded, selection

if TYPE_CHECKING:
    from rankscope.analyzers.interop.ascend_steps import StepTimes
    from rankscope.run import Run

Figures = Mapping[str, int | None]
WORDS: Final = {
    "computing": "Computing",
    "exposed": "Communication(Not Overlapped)",
    "overlapped": "Overlapped",
    "free": "Free",
}
ALONE: Final = (
    "No trace of these ranks is here, so that these are Ascend's figures alone: whom a rank waits for, why its device is free "
    "and what to change is in the trace_view.json of each rank (rankscope report)."
)
WHY: Final = (
    "Ascend's step, made up of Computing (with Overlapped in it), communication that is not overlapped and Free, begins and "
    "ends where its profiler says. Here a step ends with the device's own work, Computing is compute_ns, and Free is all that "
    "is neither compute nor communication: copies, and idle time by its cause."
)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    selection(parser)


def run(args: argparse.Namespace) -> int:
    """Print the tables."""
    from rankscope.analyzers.interop import ascend_steps

    paths = ascend_steps.tables(args.paths)
    if not paths:
        raise NothingToRead(f"no {' or '.join(sorted(ascend_steps.NAMES))} in {' '.join(args.paths)}")
    rows = [row for path in paths for row in ascend_steps.read(path)]
    found = _traces(args)
    ours = {} if found is None else _ours(found)
    lines = list(_table(rows, {} if found is None else _ranks(found), ours))
    output.put("\n".join([*lines, "", WHY if ours else ALONE]), None)
    return 0


def _traces(args: argparse.Namespace) -> Run | None:
    try:
        return loaded(args)
    except NothingToRead:
        return None


def _ranks(found: Run) -> dict[str, int]:
    """The rank of each folder that holds one trace."""
    ranks = found.analysis.run.ranks
    folders = [os.path.dirname(os.path.abspath(rank.path)) for rank in ranks]
    return {folder: rank.rank for folder, rank in zip(folders, ranks, strict=True) if folders.count(folder) == 1}


def _ours(found: Run) -> Mapping[tuple[int, str], Figures]:
    """rankscope's figures under Ascend's words, by rank and step; all windows together under the empty step."""
    result: dict[tuple[int, str], dict[str, int | None]] = {}
    for row in found.diagnose().attribution:
        figures = {
            "computing": row.compute_ns,
            "exposed": row.communication_ns,
            "overlapped": row.communication.overlapped_ns,
            "free": row.io_ns + row.host_ns + row.idle_ns,
        }
        for step in {"" if row.step is None else str(row.step), ""}:
            known = result.setdefault((row.rank, step), dict.fromkeys(figures, 0))
            result[row.rank, step] = {name: (known[name] or 0) + ns for name, ns in figures.items()}
    return result


def _table(
    rows: Iterable[StepTimes], ranks: Mapping[str, int], ours: Mapping[tuple[int, str], Figures]
) -> Iterator[str]:
    """A line a rank and step: each figure of Ascend's, with ours after it where there are traces."""
    heads = [head for word in WORDS.values() for head in ([word, "here"] if ours else [word])]
    yield "times in us"
    yield f"{'rank':>6}  {'step':<12}" + "".join(f"{head:>{max(len(head) + 2, 18)}}" for head in heads)
    for row in rows:
        rank = ranks.get(os.path.dirname(os.path.abspath(row.path))) if row.rank is None else row.rank
        own = ours.get((-1 if rank is None else rank, row.step), {})
        cells = [
            value
            for name in WORDS
            for value in ([getattr(row, f"{name}_ns"), own.get(name)] if ours else [getattr(row, f"{name}_ns")])
        ]
        step = visible(row.step) or "all"
        told = "".join(f"{_cell(cell):>{max(len(head) + 2, 18)}}" for cell, head in zip(cells, heads, strict=True))
        yield f"{'n/a' if rank is None else rank:>6}  {step:<12}" + told


def _cell(ns: int | None) -> str:
    return "n/a" if ns is None else f"{ns / 1000:,.3f}"
