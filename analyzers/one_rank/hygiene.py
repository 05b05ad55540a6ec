"""Events whose recorded time is impossible are set aside: their time becomes unknown, nothing is invented in its place.

A clean file loses nothing. Order: negative, zero start, out of reach, duplicate, then absurd duration among what is left.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from rankscope.analyzers.trace.model import Trace
from rankscope.analyzers.trace.table import Bools, Ints, Table
from rankscope.analyzers.trace.tables import DeviceEvents, HostEvents, OtherEvents, PythonFunctions, RuntimeCalls

TIMED: tuple[type[Table], ...] = (HostEvents, RuntimeCalls, DeviceEvents, PythonFunctions, OtherEvents)
# an equal row is a copy only if the table has ids that tell equal things apart, or one place cannot hold both
IDS: Mapping[type[Table], tuple[str, ...]] = {
    HostEvents: ("external_id",),
    RuntimeCalls: ("correlation", "external_id"),
    PythonFunctions: ("python_id",),
    DeviceEvents: (),
}
ABSURD = 10  # times the 99th percentile of the other events of its name (accounting, section 7)
RESOLUTION_NS = 1000  # older files count whole microseconds: a duration of 0 says "under 1 us"
SWALLOWED = 2  # later starts on its stream
REACH_NS = 1 << 51  # 26 days from the file's median start; within it sums of times are exact, even as float64


@dataclass(frozen=True, slots=True)
class Hygiene:
    """Which rows count. `counts`: kind of damage -> events set aside."""

    masks: Mapping[type[Table], Bools]
    counts: Mapping[str, int]
    device: Ints  # of the device events set aside, by start
    start_ns: Ints

    def kept(self, table: type[Table]) -> Bools:
        """The rows of the table that count; empty for a table that the file does not have."""
        return self.masks.get(table, np.empty(0, np.bool_))

    def aside_ns(self, device: int) -> Ints:
        """Begins of the events of this device that were set aside, ascending."""
        starts: Ints = self.start_ns[self.device == device]
        return starts

    @property
    def total(self) -> int:
        """Events set aside."""
        return sum(self.counts.values())


def set_aside(trace: Trace) -> Hygiene:
    """Judge every timed event of the file."""
    tables = {table: trace[table] for table in TIMED if table in trace}
    counts = dict.fromkeys(("negative", "zero_start", "out_of_reach", "duplicate", "absurd_duration"), 0)
    masks: dict[type[Table], Bools] = {}
    zero_is_damage, negative_is_damage = _impossible_starts(list(tables.values()))
    earliest, latest = _reach(list(tables.values()))
    for kind, table in tables.items():
        start, dur = _times(table)
        negative = dur < 0
        if negative_is_damage:
            negative |= start < 0
        zero = (start == 0) & ~negative if zero_is_damage else np.zeros(len(table), np.bool_)
        kept = ~(negative | zero)
        far = kept & ((start < earliest) | (start > latest) | (dur > REACH_NS))
        kept &= ~far
        copies = _duplicates(table, kept, IDS[kind]) if kind in IDS else np.empty(0, np.int64)
        kept[copies] = False
        counts["negative"] += int(negative.sum())
        counts["zero_start"] += int(zero.sum())
        counts["out_of_reach"] += int(far.sum())
        counts["duplicate"] += len(copies)
        if isinstance(table, DeviceEvents):
            absurd = _absurd(table, kept)
            kept[absurd] = False
            counts["absurd_duration"] += len(absurd)
        masks[kind] = kept
    device, start_ns = _places(tables.get(DeviceEvents), masks.get(DeviceEvents))
    return Hygiene(masks, counts, device, start_ns)


def _times(table: Table) -> tuple[Ints, Ints]:
    return table.ints("start_ns"), table.ints("dur_ns")


def _places(events: Table | None, kept: Bools | None) -> tuple[Ints, Ints]:
    if events is None or kept is None:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    rows = np.flatnonzero(~kept)
    rows = rows[np.argsort(events.ints("start_ns")[rows], kind="stable")]
    return events.ints("device")[rows].astype(np.int64), events.ints("start_ns")[rows].astype(np.int64)


def _impossible_starts(tables: list[Table]) -> tuple[bool, bool]:
    """Whether a start of 0, and a negative one, are damage rather than this file's way of counting.

    Zero is damage where few starts are zero and the others begin further away than they lie apart.
    """
    starts = [_times(table)[0] for table in tables if len(table)]
    if not starts or min(int(start.min()) for start in starts) > 0:
        return False, False
    every = np.concatenate(starts)
    positive = every[every > 0]
    zeros = int((every == 0).sum())
    apart = len(positive) > zeros and int(positive.min()) > int(positive.max()) - int(positive.min())
    return apart, 2 * len(positive) > len(every)


def _reach(tables: list[Table]) -> tuple[int, int]:
    """The earliest and the latest start that belong to one capture. The median is taken only where they lie apart."""
    starts = [_times(table)[0] for table in tables if len(table)]
    if not starts:
        return 0, 0
    first, last = min(int(start.min()) for start in starts), max(int(start.max()) for start in starts)
    if last - first <= REACH_NS:
        return first, last
    every = np.concatenate(starts)
    middle = int(np.partition(every, len(every) // 2)[len(every) // 2])
    return max(middle - REACH_NS, first), min(middle + REACH_NS, last)


def _duplicates(table: Table, kept: Bools, ids: tuple[str, ...]) -> Ints:
    """Rows equal to an earlier row in every column. Rows that could carry an id and have none are never judged."""
    start, _ = _times(table)
    if ids:
        kept = kept & np.logical_or.reduce([table.valid(name) for name in ids])
    rows = np.flatnonzero(kept)
    rows = rows[np.argsort(start[rows], kind="stable")]
    same = start[rows[1:]] == start[rows[:-1]]
    rows = rows[np.append(same, False) | np.insert(same, 0, False)] if len(rows) else rows
    columns = [table.columns[name][rows] for name in table.columns] + [mask[rows] for mask in table.masks.values()]
    order = np.lexsort(columns[::-1])
    equal = np.ones(max(len(rows) - 1, 0), np.bool_)
    for column in columns:
        ordered = column[order]
        equal &= ordered[1:] == ordered[:-1]
    return rows[order[1:]][equal] if len(rows) else rows


def _absurd(events: DeviceEvents, kept: Bools) -> Ints:
    """Rows over ten times the 99th percentile of the others of their name that swallow later starts on their stream."""
    greedy = _greedy(events, kept)
    if not len(greedy):
        return greedy
    of_name = np.zeros(int(events.name_id.max()) + 1, np.bool_)
    of_name[events.name_id[greedy]] = True
    rows = np.flatnonzero(kept & of_name[events.name_id])
    name, dur = events.name_id[rows], events.dur_ns[rows]
    order = np.lexsort((dur, name))
    rows, name, dur = rows[order], name[order], dur[order]
    first = np.flatnonzero(np.append(True, name[1:] != name[:-1]))
    size = np.diff(np.append(first, len(rows)))
    begin, others = np.repeat(first, size), np.repeat(size, size) - 1
    place = np.arange(len(rows)) - begin
    rank = 0.99 * np.maximum(others - 1, 0)
    low = np.floor(rank).astype(np.int64)
    high = np.minimum(low + 1, np.maximum(others - 1, 0))
    last = len(rows) - 1
    at_low = dur[np.minimum(begin + low + (low >= place), last)]
    at_high = dur[np.minimum(begin + high + (high >= place), last)]
    percentile = at_low + (at_high - at_low) * (rank - low)
    return np.intersect1d(greedy, rows[(others > 0) & (dur > ABSURD * np.maximum(percentile, RESOLUTION_NS))])


def _greedy(events: DeviceEvents, kept: Bools) -> Ints:
    """Rows after whose start, and before whose end, two or more others start on the same stream."""
    rows = np.flatnonzero(kept)
    rows = rows[np.lexsort((events.start_ns[rows], events.stream[rows], events.device[rows]))]
    device, stream, start = events.device[rows], events.stream[rows], events.start_ns[rows]
    if len(rows) < SWALLOWED:
        return rows[:0]
    new_stream = np.append(True, (device[1:] != device[:-1]) | (stream[1:] != stream[:-1]))
    new_start = new_stream | np.append(True, start[1:] != start[:-1])
    first = np.flatnonzero(new_start)
    later = np.append(first[1:], len(rows))[np.cumsum(new_start) - 1]  # the first row behind this one's start
    second = np.minimum(later + SWALLOWED - 1, len(rows) - 1)
    inside = (later + SWALLOWED - 1 < len(rows)) & (start[second] < start + events.dur_ns[rows])
    streams = np.cumsum(new_stream)
    greedy: Ints = rows[inside & (streams[second] == streams)]
    return greedy
