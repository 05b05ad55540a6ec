"""Counts and exemplars that rules ask for, from one file: how often the host blocked, copied, allocated, loaded, saved."""

from __future__ import annotations

import numpy as np

from rankscope.analyzers.intervals import Ints, Spans, intersect, union, within
from rankscope.analyzers.one_rank import host_kind, kernel_kind
from rankscope.analyzers.one_rank.device_time import RowTime
from rankscope.analyzers.one_rank.host_activity import Activity, HostActivity
from rankscope.analyzers.one_rank.launches import DeviceWork
from rankscope.analyzers.one_rank.steps import Marks
from rankscope.analyzers.one_rank.training_ranges import TrainingRanges
from rankscope.analyzers.trace.model import Trace
from rankscope.analyzers.trace.tables import DeviceEvents

TOP = 5  # exemplars of a kind


def host_counts(
    trace: Trace, host: HostActivity, ranges: TrainingRanges, found: Marks, row: RowTime
) -> dict[str, Ints]:
    """Per window of the row: host calls, counted by the host's own marks, since a device's windows lag behind its host."""
    bounds = host_bounds(found, row)
    names = trace.names
    device_sync = host_kind.where(host.blocking.name_id, names, host_kind.is_device_sync)
    items = host_kind.where(host.blocking.name_id, names, host_kind.ITEM_OPERATORS.__contains__)
    single = host_kind.where(host.loader.name_id, names, lambda name: "SingleProcess" in name)
    main = host.loader.tid == (-1 if host.main_tid is None else host.main_tid)
    return {
        "blocking_calls": _count(host.blocking.start[~items], bounds),
        "device_syncs": _count(host.blocking.start[device_sync], bounds),
        "item_calls": _count(host.blocking.start[items], bounds),
        "allocator_calls": _count(host.allocator.start, bounds),
        "loader_calls": _count(host.loader.start[main], bounds),
        "single_process_calls": _count(host.loader.start[main & single], bounds),
        "checkpoint_calls": _count(host.checkpoint.start, bounds),
        "single_tensor_calls": _count(ranges.single_tensor, bounds),
        "many_tensor_calls": _count(ranges.many_tensors, bounds),
        "zero_calls": _count(ranges.zeroed, bounds),
        "loop_iterations": _count(ranges.iterations, bounds),
        "cpu_collectives": _count(ranges.cpu_collectives.start, bounds),
        "compiles": _count(ranges.compiles, bounds),
    }


def device_counts(trace: Trace, work: DeviceWork, row: RowTime) -> dict[str, Ints]:
    """Per window of the row: device events, counted by the row's windows."""
    bounds, events = row.windows.bounds, trace.get(DeviceEvents)
    drains = row.gaps.start[row.gaps.drain] if row.gaps else np.empty(0, np.int64)
    pageable = np.flatnonzero(
        (work.kind == kernel_kind.HOST_TO_DEVICE) & host_kind.where(work.name_id, trace.names, kernel_kind.is_pageable)
    )
    largest = np.zeros(len(bounds) - 1, np.int64)
    at = np.searchsorted(bounds, work.start[pageable], "right") - 1
    inside = (at >= 0) & (at < len(largest))
    np.maximum.at(largest, at[inside], events.bytes[work.row[pageable]][inside])
    copies = union(Spans(work.start[pageable], work.end[pageable]))
    return {
        "drains": _count(drains, bounds),
        "device_to_host_copies": _count(work.start[work.kind == kernel_kind.DEVICE_TO_HOST], bounds),
        "pageable_bytes": largest,
        "pageable_ns": within(intersect(row.moved, copies), bounds),
        "kernels": _count(work.start[work.kind == kernel_kind.COMPUTE], bounds),
    }


def host_bounds(found: Marks, row: RowTime) -> Ints:
    """The row's windows by the host's own marks."""
    if found.tid is None:
        return row.windows.bounds
    bounds = row.windows.bounds.copy()
    first = 1 if row.windows.labels[0] == "before" else 0
    bounds[first : first + len(found.start)] = found.start
    return np.maximum.accumulate(bounds)


def _count(times: Ints, bounds: Ints) -> Ints:
    times = np.sort(times)
    return np.diff(np.searchsorted(times, bounds, "left"))


def exemplars(
    trace: Trace, host: HostActivity, rows: list[RowTime], work: list[DeviceWork]
) -> list[tuple[str, int, int, int]]:
    """(trouble, name id, start, duration) of the costliest events of each kind."""
    found: list[tuple[str, int, int, int]] = []
    for trouble, activity in (
        ("data_loading", host.loader),
        ("checkpoint", host.checkpoint),
        ("gc", host.gc),
        ("allocator", host.allocator),
    ):
        found += [(trouble, *event) for event in _longest(activity)]
    for row in rows:
        found += [("sync", *event) for event in _draining(row, host)]
    for device in work:
        pageable = np.flatnonzero(
            (device.kind == kernel_kind.HOST_TO_DEVICE)
            & host_kind.where(device.name_id, trace.names, kernel_kind.is_pageable)
        )
        activity = Activity(device.start[pageable], device.end[pageable], pageable, device.name_id[pageable])
        found += [("pageable", *event) for event in _longest(activity)]
    return found


def _longest(activity: Activity) -> list[tuple[int, int, int]]:
    dur = activity.end - activity.start
    return [
        (int(activity.name_id[i]), int(activity.start[i]), int(dur[i])) for i in np.argsort(-dur, kind="stable")[:TOP]
    ]


def _draining(row: RowTime, host: HostActivity) -> list[tuple[int, int, int]]:
    """The blocking calls behind the longest refills: the outermost that was waiting when the gap began."""
    if row.gaps is None:
        return []
    gaps, result = row.gaps, []
    drained = np.flatnonzero(gaps.drain & (gaps.end < row.windows.bounds[-1]))
    refill = np.minimum(gaps.asked[drained], gaps.end[drained]) - gaps.start[drained]
    for i in drained[np.argsort(-refill, kind="stable")[:TOP]]:
        calls = host.blocking
        waiting = np.flatnonzero(
            (calls.start < gaps.start[i]) & (gaps.start[i] <= calls.end) & (calls.tid == gaps.tid[i])
        )
        if len(waiting):
            outer = waiting[np.argmin(calls.start[waiting])]
            result.append(
                (int(calls.name_id[outer]), int(calls.start[outer]), int(calls.end[outer] - calls.start[outer]))
            )
    return result
