"""Holistic Trace Analysis (HTA): its temporal breakdown as it computes it, from our tables.

`peers.hta` is its definition without its rounding. Here is its arithmetic, so that what is left between the two tools
can be told: every event rounded inwards to whole microseconds, a kernel shorter than that counted with less than no
time, the last step left out unless asked for. Source: HTA 0.6.1, read for its definitions; nothing of it is used here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rankscope.analyzers.intervals import Bools, Ints, Spans, intersect, total, union
from rankscope.analyzers.one_rank import host_kind, kernel_kind
from rankscope.analyzers.one_rank.hygiene import set_aside
from rankscope.analyzers.one_rank.launches import device_kinds, launches
from rankscope.analyzers.one_rank.peers import hta_communication, hta_memory
from rankscope.analyzers.one_rank.steps import Marks, marks
from rankscope.analyzers.trace.model import Trace
from rankscope.analyzers.trace.tables import DeviceEvents, OtherEvents

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Breakdown:
    """HTA's temporal breakdown of one rank, in microseconds as it prints them."""

    kernel_time_us: float
    compute_time_us: float
    non_compute_time_us: float
    idle_time_us: float


@dataclass(frozen=True, slots=True)
class Otherwise:
    """Device events of one kind here that HTA counts as another."""

    ours: str
    theirs: str
    name: str  # the one with most time
    total_ns: int


def breakdown(trace: Trace, *, last_step: bool, rounded: bool = True) -> Breakdown | None:
    """The breakdown by HTA's arithmetic; None where it has no device event to go by.

    `last_step`: HTA's `include_last_profiler_step`; `rounded` False: the same definition in whole nanoseconds.
    """
    events = trace.get(DeviceEvents)
    taken = _taken(trace, last_step)
    if not taken.any():
        return None
    start_ns, dur_ns, name_id = events.start_ns[taken], events.dur_ns[taken], events.name_id[taken]
    compute = ~hta_communication(name_id, trace.names) & ~hta_memory(name_id, trace.names)
    if rounded:
        start, end = _microseconds(start_ns, dur_ns)
        span, busy = _merged(start, end)
        computing = _merged(start[compute], end[compute])[1]
    else:
        every, computes = Spans(start_ns, start_ns + dur_ns), Spans(start_ns[compute], (start_ns + dur_ns)[compute])
        span = int(every.end.max() - every.start.min()) / 1000
        busy, computing = total(union(every)) / 1000, total(union(computes)) / 1000
    idle = round(span - busy, 3)
    return Breakdown(span, computing, round(span - computing - idle, 3), idle)


def overlap_percent(trace: Trace, *, last_step: bool) -> float | None:
    """HTA's share of communication under compute, in whole nanoseconds; None without communication."""
    events, taken = trace.get(DeviceEvents), _taken(trace, last_step)
    communicates = hta_communication(events.name_id, trace.names)
    computes = ~communicates & ~hta_memory(events.name_id, trace.names)
    communication, compute = (
        union(Spans(events.start_ns[rows], (events.start_ns + events.dur_ns)[rows]))
        for rows in (taken & communicates, taken & computes)
    )
    whole = total(communication)
    return 100 * total(intersect(communication, compute)) / whole if whole else None


def last_step_us(trace: Trace) -> float:
    """Durations of the device events that HTA leaves out with the last step; 0 where it leaves none out."""
    with_it, without = _taken(trace, True), _taken(trace, False)
    return float(trace.get(DeviceEvents).dur_ns[with_it & ~without].sum() / 1000)


def synchronisations(trace: Trace) -> int:
    """Rows on device tracks that say when a synchronisation was over."""
    return int(host_kind.where(trace.get(OtherEvents).cat_id, trace.names, "cuda_sync".__eq__).sum())


def counted_otherwise(trace: Trace) -> list[Otherwise]:
    """Device events that HTA puts into another class than rankscope does, most time first."""
    events, kinds = trace.get(DeviceEvents), device_kinds(trace)
    communication = hta_communication(events.name_id, trace.names)
    memory = hta_memory(events.name_id, trace.names) & ~communication
    theirs = np.where(communication, 0, np.where(memory, 1, 2))
    ours = np.where(kinds == kernel_kind.COMMUNICATION, 0, np.where(kinds == kernel_kind.COMPUTE, 2, 1))
    words = ("communication", "memory", "compute")
    found = []
    for mine in range(3):
        for other in range(3):
            rows = np.flatnonzero((ours == mine) & (theirs == other) & (kinds != kernel_kind.NOTHING))
            if mine != other and len(rows):
                names, of = np.unique(events.name_id[rows], return_inverse=True)
                total = np.bincount(of, events.dur_ns[rows])
                name = trace.names[int(names[np.argmax(total)])]
                found.append(Otherwise(words[mine], words[other], name, int(total.sum())))
    return sorted(found, key=lambda other: -other.total_ns)


def _taken(trace: Trace, last_step: bool) -> Bools:
    """With two or more steps only device events launched, by a call in the file, before the last one (or by its end)."""
    events, hygiene = trace.get(DeviceEvents), set_aside(trace)
    found = marks(trace, hygiene)
    every = np.ones(len(events), np.bool_)
    if len(found.number) < 2:
        return every
    joined = launches(trace, hygiene)
    at = np.ceil(_exact(joined.at_ns))
    limit = _limit(found, last_step)
    return joined.launched & ((at <= limit) if last_step else (at < limit))


def _limit(found: Marks, last_step: bool) -> float:
    """Begin, or end, of the last step, rounded as all times are."""
    if last_step:
        start, dur = found.start, found.end - found.start
        return float(_microseconds(start, dur)[1].max())
    return float(np.ceil(_exact(found.start)).max())


def _microseconds(start_ns: Ints, dur_ns: Ints) -> tuple[Floats, Floats]:
    """Begins and ends as HTA has them: added as floats, then rounded inwards."""
    start = _exact(start_ns)
    return np.ceil(start), np.floor(start + _exact(dur_ns))


def _exact(ns: Ints) -> Floats:
    """The floats that a reader of JSON gets for these times: the nearest to the written decimals."""
    return np.array([value / 1000 for value in ns.tolist()], np.float64)


def _merged(start: Floats, end: Floats) -> tuple[float, float]:
    """From the first begin to the last group's end, and the time of all groups; a group ends where nothing touches it."""
    if not len(start):
        return 0.0, 0.0
    order = np.argsort(start)
    start, end = start[order], end[order]
    reach = np.maximum.accumulate(end)
    opens = np.flatnonzero(np.concatenate(([True], start[1:] > reach[:-1])))
    ends = np.maximum.reduceat(end, opens)
    return float(ends[-1] - start[0]), float((ends - start[opens]).sum())
