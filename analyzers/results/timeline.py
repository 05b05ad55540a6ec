"""A rank's time as intervals: the same parts as the report's rows, each nanosecond in one, for tracks and exports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from rankscope.analyzers.across_ranks.splits import divided
from rankscope.analyzers.analysis import Analysis
from rankscope.analyzers.intervals import Bools, Ints, Spans, clip
from rankscope.analyzers.measured import StepLabel
from rankscope.analyzers.one_rank.collective_records import CollectiveRecords
from rankscope.analyzers.one_rank.device_time import device_spans
from rankscope.analyzers.one_rank.host_activity import host_activity
from rankscope.analyzers.one_rank.host_time import host_spans
from rankscope.analyzers.one_rank.hygiene import set_aside
from rankscope.analyzers.one_rank.launches import device_work
from rankscope.analyzers.one_rank.rank_record import RecordOptions
from rankscope.analyzers.one_rank.row_times import RowTimes, labels
from rankscope.analyzers.one_rank.steps import marks
from rankscope.analyzers.trace.model import Trace

COMMUNICATION: Final = ("transfer_ns", "unsplit_ns", "wait_ns")


@dataclass(frozen=True, slots=True)
class RowTimeline:
    """One device (None: a CPU-only rank): neighbouring windows [bounds[i], bounds[i + 1]) with their labels, and the
    spans of each part within them. Nanoseconds after the file's base.
    """

    device: int | None
    labels: tuple[StepLabel, ...]
    bounds: Ints
    parts: dict[str, Spans]


def begins(analysis: Analysis) -> tuple[Ints, Bools]:
    """By lane: the first event's time on the common clock, and whether it compares with the lowest rank's."""
    clocks, lanes = analysis.matches.clocks, np.arange(len(analysis.records))
    own = [record.meta.base_ns + (record.facts.begin_ns or 0) for record in analysis.records]
    same = [clocks.component(lane) == clocks.component(0) for lane in lanes.tolist()]
    return clocks.common(lanes, np.array(own, np.int64)), np.array(same, np.bool_)


def timelines(analysis: Analysis, lane: int, trace: Trace, options: RecordOptions) -> list[RowTimeline]:
    """Each row of one rank. `trace`: its whole trace; `options`: those its record was made with."""
    record = analysis.records[lane]
    table = record[RowTimes]
    if not len(table):
        return []
    hygiene = set_aside(trace)
    host = host_activity(trace, hygiene, marks(trace, hygiene).tid, options.checkpoint)
    work = {w.device: w for w in device_work(trace, hygiene, options.communication)}
    collectives = record[CollectiveRecords]
    all_labels = labels(table)
    found = []
    for split in analysis.lanes[lane]:
        bounds = np.concatenate((table.begin_ns[split.rows], table.end_ns[split.rows][-1:]))
        if split.device is None:
            parts, exposed, _ = host_spans(trace, hygiene, host, Spans(collectives.start_ns, collectives.end_ns))
        else:
            spans = device_spans(work[split.device], host, hygiene.aside_ns(split.device), bounds)
            parts, exposed = spans.exclusive, spans.exposed
        parts = parts | _communication(analysis, lane, split.device, exposed)
        inside = {name: clip(part, int(bounds[0]), int(bounds[-1])) for name, part in parts.items()}
        found.append(RowTimeline(split.device, tuple(all_labels[int(row)] for row in split.rows), bounds, inside))
    return found


def _communication(analysis: Analysis, lane: int, device: int | None, exposed: Spans) -> dict[str, Spans]:
    """Exposed communication divided, on the file's own clock."""
    pool, base = analysis.matches.pool, analysis.records[lane].meta.base_ns
    mine = np.flatnonzero(pool.lane == lane)
    if device is not None:
        mine = mine[analysis.records[lane][CollectiveRecords].device[pool.row[mine]] == device]
    shifted = Spans(exposed.start + base, exposed.end + base)
    pieces = divided(analysis.matches, analysis.splits, mine, shifted)
    return {
        name: Spans(piece.start - base, piece.end - base) for name, piece in zip(COMMUNICATION, pieces, strict=True)
    }
