"""Where a CPU-only rank's time went, as far as one file can tell (docs/accounting.md, section 4)."""

from __future__ import annotations

import numpy as np

from rankscope.analyzers.intervals import EMPTY, Ints, Spans, complement, intersect, subtract, union, within
from rankscope.analyzers.one_rank import host_kind
from rankscope.analyzers.one_rank.device_time import RowTime
from rankscope.analyzers.one_rank.host_activity import HostActivity
from rankscope.analyzers.one_rank.hygiene import Hygiene
from rankscope.analyzers.one_rank.row_times import PARTS
from rankscope.analyzers.one_rank.steps import Windows
from rankscope.analyzers.trace.model import Trace
from rankscope.analyzers.trace.tables import HostEvents


def host_time(trace: Trace, hygiene: Hygiene, windows: Windows, host: HostActivity, flights: Spans) -> RowTime:
    """Attribute the windows. `flights`: collectives from launch to end, in any order."""
    sets, exposed, overlays = host_spans(trace, hygiene, host, flights)
    parts = {name: within((sets | overlays).get(name, EMPTY), windows.bounds) for name in PARTS}
    return RowTime(None, windows, parts, exposed, EMPTY, EMPTY)


def host_spans(
    trace: Trace, hygiene: Hygiene, host: HostActivity, flights: Spans
) -> tuple[dict[str, Spans], Spans, dict[str, Spans]]:
    """Which nanoseconds belong to which part, from FIRST to LAST: compute > io > communication > host; the exposed
    communication; and the overlays.
    """
    checkpoint = host.checkpoint.on(host.main_tid)
    waiting = union(host.loader.on(host.main_tid), checkpoint)
    # A training thread's operators inside the loader are input; another training thread's are computation all the same.
    compute = EMPTY
    for tid in training_threads(trace, host.main_tid):
        operators = _working(trace, hygiene, tid)
        compute = union(compute, subtract(operators, waiting) if tid == host.main_tid else operators)
    io = subtract(waiting, compute)
    communication = union(flights)
    exposed = subtract(subtract(communication, compute), io)
    left = subtract(subtract(subtract(complement(EMPTY), compute), io), exposed)
    collecting = intersect(left, host.gc.on(host.main_tid))
    sets = {
        "kernel_ns": compute,
        "checkpoint_ns": intersect(io, checkpoint),
        "data_loading_ns": subtract(io, checkpoint),
        "gc_ns": collecting,
        "other_ns": subtract(left, collecting),
    }
    overlays = {
        "communication_overlapped_ns": intersect(communication, compute),
        "io_overlapped_ns": subtract(waiting, io),
    }
    return sets, exposed, overlays


def training_threads(trace: Trace, main_tid: int | None) -> list[int]:
    """The marks' thread and those that run backward nodes."""
    events = trace.get(HostEvents)
    backward = host_kind.where(events.name_id, trace.names, host_kind.is_backward_node)
    found = {int(tid) for tid in np.unique(events.tid[backward])}
    return sorted(found | ({main_tid} if main_tid is not None else set()))


def _working(trace: Trace, hygiene: Hygiene, tid: int) -> Spans:
    """Union of the operators that do work on one thread."""
    events = trace.get(HostEvents)
    operator = host_kind.where(events.cat_id, trace.names, host_kind.OPERATOR_CATEGORIES.__contains__)
    working = operator & host_kind.where(events.name_id, trace.names, host_kind.is_working_operator)
    rows: Ints = np.flatnonzero(working & (events.tid == tid) & hygiene.kept(HostEvents))
    return union(Spans(events.start_ns[rows], events.start_ns[rows] + events.dur_ns[rows]))
