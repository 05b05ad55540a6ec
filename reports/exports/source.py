"""What an export is made from: an analysed run, its diagnosis, and a way to its whole traces."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from rankscope.analyzers.analysis import Analysis
from rankscope.analyzers.findings import Diagnosis
from rankscope.analyzers.intervals import Bools, Ints
from rankscope.analyzers.one_rank.rank_record import RecordOptions
from rankscope.analyzers.one_rank.row_times import STEP, RowTimes
from rankscope.analyzers.trace.model import Trace


@dataclass(frozen=True, slots=True)
class Source:
    """`options`: those the records were made with; `read` gives one rank's whole trace."""

    analysis: Analysis
    diagnosis: Diagnosis
    options: RecordOptions
    read: Callable[[int], Trace]

    def traces(self) -> Iterator[tuple[int, int, Trace]]:
        """(lane, rank, trace) of each rank, one trace in memory at a time."""
        for lane, rank in enumerate(self.analysis.ranks):
            yield lane, rank, self.read(rank)

    def extent(self, lane: int) -> tuple[int, int] | None:
        """Begin and end of the steps asked for, after the file's base; None: all of the file."""
        wanted = self.analysis.only_steps
        table = self.analysis.records[lane][RowTimes]
        rows = np.flatnonzero(table.label == STEP)
        if wanted is None or not len(rows):
            return None
        rows = rows[np.isin(table.step[rows], sorted(wanted))]
        return (int(table.begin_ns[rows].min()), int(table.end_ns[rows].max())) if len(rows) else (0, 0)


def within(extent: tuple[int, int] | None, start: Ints, end: Ints) -> Bools:
    """Which events reach into the extent."""
    if extent is None:
        return np.ones(len(start), np.bool_)
    inside: Bools = (end > extent[0]) & (start < extent[1])
    return inside
