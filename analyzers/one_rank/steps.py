"""Steps: the host's ProfilerStep marks, and the windows of a row that follow from them (docs/accounting.md, section 2)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankscope.analyzers.intervals import Ints
from rankscope.analyzers.measured import StepLabel
from rankscope.analyzers.one_rank import host_kind, kernel_kind
from rankscope.analyzers.one_rank.hygiene import Hygiene
from rankscope.analyzers.one_rank.launches import DeviceWork
from rankscope.analyzers.trace.model import Trace
from rankscope.analyzers.trace.tables import DeviceEvents, HostEvents, OtherEvents, PythonFunctions, RuntimeCalls


@dataclass(frozen=True, slots=True)
class Marks:
    """The host's step marks in order of time: numbers, begins and ends in nanoseconds; `tid` carries them (None: no
    marks).
    """

    number: Ints
    start: Ints
    end: Ints
    tid: int | None


@dataclass(frozen=True, slots=True)
class Windows:
    """Neighbouring windows of one row: window i is [bounds[i], bounds[i + 1]) and belongs to labels[i].

    Labels: "before", step numbers, "after"; a single None where the host set no marks. Empty "before" and "after" are
    left out.
    """

    labels: tuple[StepLabel, ...]
    bounds: Ints


def marks(trace: Trace, hygiene: Hygiene) -> Marks:
    """The ProfilerStep marks of the thread that has most of them; of a number that appears twice the first."""
    events = trace.get(HostEvents)
    rows = np.flatnonzero(
        host_kind.where(events.name_id, trace.names, lambda name: host_kind.step_number(name) is not None)
        & hygiene.kept(HostEvents)
    )
    if not len(rows):
        return Marks(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int64), None)
    tids, counts = np.unique(events.tid[rows], return_counts=True)
    tid = int(tids[np.argmax(counts)])
    rows = rows[events.tid[rows] == tid]
    rows = rows[np.argsort(events.start_ns[rows], kind="stable")]
    numbers = np.array([host_kind.step_number(trace.names[i]) for i in events.name_id[rows]], np.int64)
    _, first = np.unique(numbers, return_index=True)
    rows, numbers = rows[np.sort(first)], numbers[np.sort(first)]
    return Marks(numbers, events.start_ns[rows], events.start_ns[rows] + events.dur_ns[rows], tid)


def timed_extent(trace: Trace, hygiene: Hygiene) -> tuple[int, int] | None:
    """First begin and last end of the file's timed events, without what was set aside; None where there is none."""
    begins, ends = [], []
    for table in (HostEvents, RuntimeCalls, DeviceEvents, PythonFunctions, OtherEvents):
        if table not in trace:
            continue
        events, kept = trace.get(table), hygiene.kept(table)
        start, dur = events.ints("start_ns")[kept], events.ints("dur_ns")[kept]
        if len(start):
            begins.append(int(start.min()))
            ends.append(int((start + dur).max()))
    return (min(begins), max(ends)) if begins else None


def device_windows(found: Marks, work: DeviceWork, extent: tuple[int, int]) -> Windows:
    """A step begins at its mark, or when the device has finished the compute kernels launched before it, whichever is
    later.

    It ends where the next begins; the last at the later of its mark's end and the end of the last compute kernel
    launched in it.
    """
    if found.tid is None:
        return Windows((None,), np.array(extent, np.int64))
    kernels = work.kind == kernel_kind.COMPUTE
    asked, ends = work.asked_ns[kernels], work.end[kernels]
    order = np.argsort(asked, kind="stable")
    asked, reach = asked[order], np.maximum.accumulate(ends[order])
    at = np.concatenate((found.start, [max(int(found.end[-1]), int(found.start[-1]))]))
    launched_before = np.searchsorted(asked, at, "left")
    finished = np.where(launched_before > 0, reach[np.maximum(launched_before - 1, 0)], at) if len(reach) else at
    bounds = np.maximum.accumulate(np.maximum(at, finished))
    return _with_outside(found, bounds, extent)


def host_windows(found: Marks, extent: tuple[int, int]) -> Windows:
    """CPU-only rows: from one mark's begin to the next's, the last to its mark's end."""
    if found.tid is None:
        return Windows((None,), np.array(extent, np.int64))
    bounds = np.concatenate((found.start, [max(int(found.end[-1]), int(found.start[-1]))]))
    return _with_outside(found, bounds, extent)


def _with_outside(found: Marks, bounds: Ints, extent: tuple[int, int]) -> Windows:
    """Add the windows before the first and after the last step, where something was recorded there."""
    labels: list[StepLabel] = [int(n) for n in found.number]
    if extent[0] < bounds[0]:
        labels, bounds = ["before", *labels], np.concatenate(([extent[0]], bounds))
    if extent[1] > bounds[-1]:
        labels, bounds = [*labels, "after"], np.concatenate((bounds, [extent[1]]))
    return Windows(tuple(labels), bounds)
