"""What a trace recorded, track by track: threads, streams, and what is neither."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from rankscope.analyzers.intervals import Ints
from rankscope.analyzers.one_rank.hygiene import Hygiene
from rankscope.analyzers.trace.model import Trace
from rankscope.analyzers.trace.table import Table
from rankscope.analyzers.trace.tables import (
    DeviceAnnotations,
    DeviceEvents,
    HostEvents,
    OtherEvents,
    PythonFunctions,
    RuntimeCalls,
)
from rankscope.reports.exports.lanes import in_order
from rankscope.reports.exports.source import within

HOST: Final = (PythonFunctions, HostEvents, RuntimeCalls)  # outermost first where begin and end are the same
Extent = tuple[int, int] | None


class Events(NamedTuple):
    """Events of one track `in_order`; `table` and `row`: where each comes from."""

    start: Ints
    end: Ints
    name_id: Ints
    table: Ints
    row: Ints


def threads(trace: Trace, hygiene: Hygiene, extent: Extent) -> Iterator[tuple[str, Events]]:
    """Python functions, operators, annotations and runtime calls, thread by thread, lowest first."""
    for (pid, tid), events in _grouped(trace, hygiene, extent, HOST, ("pid", "tid")):
        yield f"thread {tid}" if pid == tid or pid == _process(trace) else f"process {pid} thread {tid}", events


def streams(trace: Trace, hygiene: Hygiene, extent: Extent) -> Iterator[tuple[str, Events]]:
    """Kernels, copies and fills, stream by stream."""
    for (device, stream), events in _grouped(trace, hygiene, extent, (DeviceEvents,), ("device", "stream")):
        yield f"gpu {device} stream {stream}", events


def beside(trace: Trace, hygiene: Hygiene, extent: Extent) -> Iterator[tuple[str, Events]]:
    """Annotations projected on streams, and timed events that are no work and no host activity."""
    for (device, stream), events in _grouped(trace, hygiene, extent, (DeviceAnnotations,), ("device", "stream")):
        yield f"gpu {device} stream {stream} annotations", events
    for (pid, tid), events in _grouped(trace, hygiene, extent, (OtherEvents,), ("pid", "tid")):
        yield f"other events {pid}/{tid}", events


def _process(trace: Trace) -> int | None:
    """The process most host events come from."""
    pids = trace.get(HostEvents).pid
    if not len(pids):
        return None
    distinct, counts = np.unique(pids, return_counts=True)
    return int(distinct[np.argmax(counts)])


def _grouped(
    trace: Trace, hygiene: Hygiene, extent: Extent, tables: tuple[type[Table], ...], keys: tuple[str, str]
) -> Iterator[tuple[tuple[int, int], Events]]:
    parts = [_kept(trace, hygiene, extent, i, table, keys) for i, table in enumerate(tables)]
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    first, second = columns[:2]
    order = np.lexsort((second, first))
    edges = np.flatnonzero((np.diff(first[order]) != 0) | (np.diff(second[order]) != 0)) + 1
    for rows in np.split(order, edges) if len(order) else ():
        events = Events(*(column[rows] for column in columns[2:]))
        placed = in_order(events.start, events.end)
        yield (int(first[rows[0]]), int(second[rows[0]])), Events(*(column[placed] for column in events))


def _kept(
    trace: Trace, hygiene: Hygiene, extent: Extent, index: int, table: type[Table], keys: tuple[str, str]
) -> tuple[Ints, ...]:
    """Keys, begin, end, name, table and row of the events that were not set aside."""
    events = trace.get(table)
    start = events.ints("start_ns")
    end = start + events.ints("dur_ns")
    kept = hygiene.kept(table)
    kept = kept if len(kept) == len(events) else end >= start
    rows = np.flatnonzero(kept & within(extent, start, end))
    taken = [events.ints(name)[rows] for name in keys]
    return (*taken, start[rows], end[rows], events.ints("name_id")[rows], np.full(len(rows), index, np.int64), rows)
