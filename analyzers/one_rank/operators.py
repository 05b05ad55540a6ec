"""Operators by name: how often, how long on the host without those inside them, and the device time they asked for."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from rankscope.analyzers.intervals import Bools, Ints
from rankscope.analyzers.one_rank import host_kind, kernel_kind
from rankscope.analyzers.one_rank.hygiene import Hygiene, set_aside
from rankscope.analyzers.one_rank.launches import device_kinds
from rankscope.analyzers.trace.model import Trace
from rankscope.analyzers.trace.table import Column, Table
from rankscope.analyzers.trace.tables import DeviceEvents, HostEvents


class OperatorTable(Table):
    """One row per rank and operator. Annotations, runtime calls and Python functions are no operators."""

    rank = Column(np.int64, "rank")
    name = Column(object, "operator")
    count = Column(np.int64, "calls")
    total_ns = Column(np.int64, "host time from call to return; a call inside one of its own name counts in both")
    self_ns = Column(np.int64, "host time without the operators called inside, on the same thread")
    device_ns = Column(
        np.int64, "durations of the device events it launched itself; absent: the trace does not say", nullable=True
    )
    device_events = Column(np.int64, "how many those are", nullable=True)


def operators(traces: Iterable[tuple[int, Trace]]) -> OperatorTable:
    """The operators of every rank, most host time of their own first within a rank. Cost: O(n log n) a trace."""
    parts = [_of_one(rank, trace) for rank, trace in traces]
    if not parts:
        return OperatorTable.empty()
    columns = {name: np.concatenate([part.columns[name] for part in parts]) for name in OperatorTable.declared}
    return OperatorTable(
        columns, {name: np.concatenate([part.valid(name) for part in parts]) for name in ("device_ns", "device_events")}
    )


def _of_one(rank: int, trace: Trace) -> OperatorTable:
    hygiene = set_aside(trace)
    events = trace.get(HostEvents)
    operator = host_kind.where(events.cat_id, trace.names, host_kind.OPERATOR_CATEGORIES.__contains__)
    rows = np.flatnonzero(operator & hygiene.kept(HostEvents)) if len(events) else np.empty(0, np.int64)
    names, of = np.unique(events.name_id[rows], return_inverse=True)
    own = own_ns(events.tid[rows], events.start_ns[rows], events.dur_ns[rows])
    device_ns, device_events, told = _launched(trace, hygiene, rows)
    total, itself, asked, launched = (np.zeros(len(names), np.int64) for _ in range(4))
    for sums, values in ((total, events.dur_ns[rows]), (itself, own), (asked, device_ns), (launched, device_events)):
        np.add.at(sums, of, values)
    order = np.argsort(-itself, kind="stable")
    columns = {
        "rank": np.full(len(names), rank, np.int64),
        "name": np.array([*(trace.names[int(i)] for i in names), ""], object)[:-1],
        "count": np.bincount(of, minlength=len(names)),
        "total_ns": total,
        "self_ns": itself,
        "device_ns": asked,
        "device_events": launched,
    }
    valid = {name: np.full(len(names), told, np.bool_) for name in ("device_ns", "device_events")}
    return OperatorTable(columns, valid).take(order)


def own_ns(tid: Ints, start: Ints, dur: Ints) -> Ints:
    """Duration of each event less that of the events directly inside it on its thread. Cost: one pass in Python."""
    order = np.lexsort((-dur, start, tid))
    begins, ends, threads = start[order].tolist(), (start + dur)[order].tolist(), tid[order].tolist()
    own = dur[order].tolist()
    open_ones: list[int] = []
    for i, begin in enumerate(begins):
        while open_ones and (threads[open_ones[-1]] != threads[i] or ends[open_ones[-1]] <= begin):
            open_ones.pop()
        if open_ones:
            own[open_ones[-1]] -= min(ends[i], ends[open_ones[-1]]) - begin
        open_ones.append(i)
    result = np.empty(len(own), np.int64)
    result[order] = own
    return result


def _launched(trace: Trace, hygiene: Hygiene, rows: Ints) -> tuple[Ints, Ints, bool]:
    """Per operator row: time and number of the device events that name it (`External id`); whether any event does."""
    host, device = trace.get(HostEvents), trace.get(DeviceEvents)
    time, number = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)
    known: Bools = host.valid("external_id")[rows] & (host.external_id[rows] > 0)
    if not len(device) or not known.any():
        return time, number, False
    work = hygiene.kept(DeviceEvents) & (device_kinds(trace) != kernel_kind.NOTHING)
    work &= device.valid("external_id") & (device.external_id > 0)
    ids, first = np.unique(host.external_id[rows][known], return_index=True)
    at = np.minimum(np.searchsorted(ids, device.external_id), len(ids) - 1)
    found = work & (ids[at] == device.external_id)
    row = np.flatnonzero(known)[first][at[found]]
    np.add.at(time, row, device.dur_ns[found])
    np.add.at(number, row, 1)
    return time, number, bool(found.any())
