"""Where a device row's time went, as far as one file can tell (docs/accounting.md, section 3).

Everything but the split of communication into wait, transfer and unsplit, which needs the other ranks' files: for that
the exposed communication is kept as intervals.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rankscope.analyzers.intervals import (
    Bools,
    Ints,
    Spans,
    contains,
    intersect,
    subtract,
    union,
    within,
)
from rankscope.analyzers.one_rank import kernel_kind
from rankscope.analyzers.one_rank.host_activity import HostActivity
from rankscope.analyzers.one_rank.launches import DeviceWork
from rankscope.analyzers.one_rank.row_times import PARTS
from rankscope.analyzers.one_rank.steps import Windows


@dataclass(frozen=True, slots=True)
class RowTime:
    """One device's (or, `device` None, a CPU-only rank's) windows with their parts, and the communication left to
    split.

    `parts[name][i]` is nanoseconds of window i. `exposed`: communication under no computation (CPU-only: and no input
    or output); `late`: the part of it in which the host had not launched the next kernel.
    """

    device: int | None
    windows: Windows
    parts: dict[str, Ints]
    exposed: Spans
    late: Spans
    moved: Spans  # exposed copies between host and device
    gaps: Gaps | None = None


@dataclass(frozen=True, slots=True)
class Gaps:
    """Idle gaps [start, end) of one device: when the next event was launched and by which thread.

    `unexplained`: the next event has no launch in the file, or an event inside the gap was set aside. `drain`: a
    blocking call on the launching thread was waiting when the gap began.
    """

    start: Ints
    end: Ints
    asked: Ints
    tid: Ints
    unexplained: Bools
    drain: Bools

    def starved(self) -> Spans:
        """The first part of each gap, in which the host had not asked for work."""
        return Spans(self.start, np.maximum(np.minimum(self.asked, self.end), self.start))


class DeviceSpans(NamedTuple):
    """`exclusive[name]`: the nanoseconds of a part, each in one part or in `exposed`; the rest as in
    RowTime.
    """

    exclusive: dict[str, Spans]
    exposed: Spans
    late: Spans
    communication_overlapped: Spans
    gaps: Gaps


def device_time(work: DeviceWork, windows: Windows, host: HostActivity, aside_ns: Ints) -> RowTime:
    """Attribute one device's windows. `aside_ns`: begins of the device events that were set aside, ascending."""
    found = device_spans(work, host, aside_ns, windows.bounds)
    sets = found.exclusive
    io = union(*(sets[n] for n in ("data_loading_ns", "checkpoint_ns", "host_to_device_ns", "device_to_host_ns")))
    copies = (_of(work, work.kind == kind) for kind in (kernel_kind.HOST_TO_DEVICE, kernel_kind.DEVICE_TO_HOST))
    overlays = {
        "io_overlapped_ns": subtract(union(host.loader.on(host.main_tid), *copies), io),
        "communication_overlapped_ns": found.communication_overlapped,
        "host_late_ns": found.late,
    }
    parts = {name: within((sets | overlays)[name], windows.bounds) for name in PARTS}
    moved_alone = union(sets["host_to_device_ns"], sets["device_to_host_ns"])
    return RowTime(work.device, windows, parts, found.exposed, found.late, moved_alone, found.gaps)


def device_spans(work: DeviceWork, host: HostActivity, aside_ns: Ints, bounds: Ints) -> DeviceSpans:
    """Which nanoseconds of one device belong to which part; `exposed` is communication, which other files divide.

    `bounds`: of the row's windows; they span all of the work.
    """
    busy = {kind: union(_of(work, work.kind == kind)) for kind in range(kernel_kind.NOTHING)}
    compute = busy[kernel_kind.COMPUTE]
    exposed = subtract(busy[kernel_kind.COMMUNICATION], compute)
    sets, covered = {"kernel_ns": compute}, union(compute, exposed)
    for name, kind in (
        ("device_copy_ns", kernel_kind.DEVICE_COPY),
        ("host_to_device_ns", kernel_kind.HOST_TO_DEVICE),
        ("device_to_host_ns", kernel_kind.DEVICE_TO_HOST),
    ):
        sets[name] = subtract(busy[kind], covered)
        covered = union(covered, busy[kind])
    gaps = idle_gaps(work, host, aside_ns, int(bounds[0]), int(bounds[-1]))
    hidden = intersect(busy[kernel_kind.COMMUNICATION], compute)
    return DeviceSpans(sets | gap_parts(gaps, host), exposed, _host_late(work, exposed, host), hidden, gaps)


def _of(work: DeviceWork, rows: Bools) -> Spans:
    return Spans(work.start[rows], work.end[rows])


def idle_gaps(work: DeviceWork, host: HostActivity, aside_ns: Ints, begin: int, end: int) -> Gaps:
    """The gaps between device events, from the first row's begin to the last row's end, which is that gap's launch."""
    n = len(work)
    reach = np.maximum.accumulate(np.concatenate(([begin], work.end)))
    following = np.concatenate((work.start, [end]))
    at = np.flatnonzero(following > reach)
    start, stop = reach[at], following[at]
    # `work` is by start, then by launch: the row at `at` is the earliest launched of those that start there.
    row = np.minimum(at, n - 1)
    last = at == n
    unexplained = ~last & ~work.launched[row]
    asked = np.where(last, end, work.launch_ns[row])
    tid = np.where(last, -1 if host.main_tid is None else host.main_tid, work.launch_tid[row])
    if len(aside_ns):
        unexplained |= np.searchsorted(aside_ns, stop, "left") > np.searchsorted(aside_ns, start, "left")
    drain = np.zeros(len(start), np.bool_)
    for thread in np.unique(tid):
        mine = np.flatnonzero((tid == thread) & ~unexplained)
        blocking = host.blocking_on(int(thread))
        drain[mine] = contains(blocking, start[mine] - 1)  # call start < E <= call end, on whole nanoseconds
    return Gaps(start, stop, asked, tid, unexplained, drain)


def gap_parts(gaps: Gaps, host: HostActivity) -> dict[str, Spans]:
    """Divide the gaps: launch latency, kernel gaps, unexplained; and the starved time by what the host did meanwhile."""
    told = ~gaps.unexplained
    after = np.maximum(gaps.asked, gaps.start)
    late = told & (gaps.asked > gaps.start)
    queued = told & ~late
    sets = {
        "unexplained_ns": Spans(gaps.start[gaps.unexplained], gaps.end[gaps.unexplained]),
        "launch_ns": union(Spans(after[late], gaps.end[late])),
        "kernel_gap_ns": Spans(gaps.start[queued], gaps.end[queued]),
    }
    starved_all = gaps.starved()
    left = union(Spans(starved_all.start[told], starved_all.end[told]))
    for name, activity in (("checkpoint_ns", host.checkpoint), ("data_loading_ns", host.loader), ("gc_ns", host.gc)):
        sets[name] = intersect(left, activity.on(host.main_tid))
        left = subtract(left, sets[name])
    allocator = []
    for thread in np.unique(gaps.tid[told]):
        mine = told & (gaps.tid == thread)
        allocator.append(
            intersect(union(Spans(starved_all.start[mine], starved_all.end[mine])), host.allocator.on(int(thread)))
        )
    sets["allocator_ns"] = intersect(left, union(*allocator)) if allocator else left
    left = subtract(left, sets["allocator_ns"])
    drained = told & gaps.drain
    sets["sync_ns"] = intersect(left, union(Spans(gaps.start[drained], gaps.end[drained])))
    sets["other_ns"] = subtract(left, sets["sync_ns"])
    return sets


def _host_late(work: DeviceWork, exposed: Spans, host: HostActivity) -> Spans:
    """Exposed communication during which the next compute kernel had not been launched, outside blocking calls of its
    thread.
    """
    rows = np.flatnonzero(work.kind == kernel_kind.COMPUTE)
    if not exposed.size or not len(rows):
        return Spans(np.empty(0, np.int64), np.empty(0, np.int64))
    cut = _cut(exposed, work.start[rows])
    following = np.searchsorted(work.start[rows], cut.end, "left")
    known = following < len(rows)
    row = rows[np.minimum(following, len(rows) - 1)]
    known &= work.launched[row]
    ends = np.minimum(cut.end, work.launch_ns[row])
    known &= ends > cut.start
    start, ends, tid = cut.start[known], ends[known], work.launch_tid[row][known]
    pieces = []
    for thread in np.unique(tid):
        mine = tid == thread
        pieces.append(subtract(union(Spans(start[mine], ends[mine])), host.blocking_on(int(thread))))
    return union(*pieces) if pieces else Spans(start, ends)


def _cut(a: Spans, times: Ints) -> Spans:
    """Cut intervals at `times` (ascending), so that none has one inside: kernels of no length start inside exposed time
    too.
    """
    first = np.searchsorted(times, a.start, "right")
    inside = np.maximum(np.searchsorted(times, a.end, "left") - first, 0)
    if not inside.any():
        return a
    of = np.repeat(np.arange(a.size), inside)
    points = times[np.arange(len(of)) - np.repeat(np.cumsum(inside) - inside, inside) + np.repeat(first, inside)]
    start, end = np.concatenate((a.start, points)), np.concatenate((points, a.end))
    start.sort()
    end.sort()
    return Spans(start, end)
