"""Per window of one device: what its kernels are like, and what it stood still for while the training loop was at work on
something other than the step.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from rankscope.analyzers.intervals import EMPTY, Bools, Ints, Spans, intersect, subtract, union, within
from rankscope.analyzers.one_rank import kernel_kind, matmul_kind
from rankscope.analyzers.one_rank.device_time import Gaps, RowTime
from rankscope.analyzers.one_rank.host_activity import HostActivity
from rankscope.analyzers.one_rank.launches import DeviceWork
from rankscope.analyzers.one_rank.training_ranges import TrainingRanges
from rankscope.analyzers.trace.model import Trace
from rankscope.analyzers.trace.tables import MemoryEvents

TINY_NS: Final = 10_000  # a kernel; source: TraceLens's short-kernel advice (AMD-AGI/TraceLens, Agent/Analysis)
LONG_NS: Final = 100_000  # a longer gap has another cause; source: the launch-delay outliers of HolisticTraceAnalysis
ON_CPU: Final = 0  # MemoryEvents.device_type; 1 is CUDA, 6 is HIP


def work_signals(
    trace: Trace, work: DeviceWork, row: RowTime, host: HostActivity, ranges: TrainingRanges, host_bounds: Ints
) -> dict[str, Ints]:
    """The columns of RowTimes that say what a device's kernels are like, what it waits for and what is allocated on it.

    `host_bounds`: the row's windows by the host's marks, since it is the host that allocates, ahead of the device.
    """
    bounds = row.windows.bounds
    compute = np.flatnonzero(work.kind == kernel_kind.COMPUTE)
    start, end = work.start[compute], work.end[compute]

    def wall(chosen: Bools) -> Ints:
        return within(union(Spans(start[chosen], end[chosen])), bounds) if chosen.any() else _none(bounds)

    tiny = end - start < TINY_NS
    traits = matmul_kind.all_traits(work.name_id[compute], trace.names)
    found = {
        "tiny_kernels": _count(start[tiny], bounds),
        "tensor_core_ns": wall((traits & matmul_kind.TENSOR_CORES) > 0),
        "eligible_ns": wall((traits & matmul_kind.ELIGIBLE) > 0),
        "fp32_matmul_ns": wall((traits & matmul_kind.FP32_MATMUL) > 0),
        "unaligned_matmul_ns": wall((traits & matmul_kind.UNALIGNED) > 0),
    }
    if row.gaps is not None:
        found |= _idle(work, row.gaps, host, ranges, start[tiny], bounds)
    return found | _memory(trace, work.device, host_bounds)


def _none(bounds: Ints) -> Ints:
    return np.zeros(len(bounds) - 1, np.int64)


def _count(times: Ints, bounds: Ints) -> Ints:
    return np.diff(np.searchsorted(np.sort(times), bounds, "left"))


def _idle(
    work: DeviceWork, gaps: Gaps, host: HostActivity, ranges: TrainingRanges, tiny: Ints, bounds: Ints
) -> dict[str, Ints]:
    """Idle time by what it was spent on; these overlap with each other and with the parts of the row."""
    starved = gaps.starved()
    told = (starved.end > starved.start) & ~gaps.unexplained
    waiting = Spans(starved.start[told], starved.end[told])
    before_tiny = ~gaps.unexplained & ~gaps.drain & (gaps.end - gaps.start <= LONG_NS)
    if len(tiny):
        before_tiny &= tiny[np.minimum(np.searchsorted(tiny, gaps.end), len(tiny) - 1)] == gaps.end
    else:
        before_tiny[:] = False
    short = Spans(gaps.start[before_tiny], gaps.end[before_tiny])
    late = before_tiny & (gaps.asked > gaps.start)
    drained = told & gaps.drain
    claimed = union(*(activity.on(host.main_tid) for activity in (host.loader, host.checkpoint, host.gc)))
    idle = Spans(gaps.start, gaps.end)
    stepping, _ = _device_spans(work, host.main_tid, ranges.optimizer)
    _, zeroing = _device_spans(work, host.main_tid, ranges.zero_grad)
    elsewhere = union(ranges.compiling, ranges.loops, ranges.cpu_collectives, ranges.profiler)
    explained = subtract(intersect(Spans(starved.start[told & ~drained], starved.end[told & ~drained]), elsewhere), claimed)
    by_cpu = intersect(Spans(starved.start[drained], starved.end[drained]), ranges.cpu_collectives)
    return {
        "tiny_gap_ns": within(subtract(short, claimed), bounds),
        "tiny_wait_ns": within(subtract(Spans(gaps.start[late], gaps.end[late]), union(claimed, explained)), bounds),
        "other_told_ns": within(explained, bounds),
        "sync_told_ns": within(subtract(by_cpu, claimed), bounds),
        "optimizer_idle_ns": within(intersect(idle, stepping), bounds),
        "zero_grad_ns": within(zeroing, bounds),
        "loop_idle_ns": within(intersect(waiting, ranges.loops), bounds),
        "compile_idle_ns": within(intersect(waiting, ranges.compiling), bounds),
        "cpu_collective_ns": within(intersect(waiting, ranges.cpu_collectives), bounds),
        "profiler_idle_ns": within(intersect(waiting, ranges.profiler), bounds),
    }


def _device_spans(work: DeviceWork, tid: int | None, ranges: Spans) -> tuple[Spans, Spans]:
    """The device's time for what one thread launched in each range: from the first begin to the last end; and the work
    itself.
    """
    if not ranges.size or tid is None:
        return EMPTY, EMPTY
    mine = np.flatnonzero(work.launched & (work.launch_tid == tid) & (work.kind != kernel_kind.COMMUNICATION))
    mine = mine[np.argsort(work.launch_ns[mine], kind="stable")]
    first = np.searchsorted(work.launch_ns[mine], ranges.start, "left")
    last = np.searchsorted(work.launch_ns[mine], ranges.end, "left")
    pieces = [mine[a:b] for a, b in zip(first.tolist(), last.tolist(), strict=True) if b > a]
    if not pieces:
        return EMPTY, EMPTY
    begin = np.array([work.start[piece].min() for piece in pieces], np.int64)
    end = np.array([work.end[piece].max() for piece in pieces], np.int64)
    rows = np.concatenate(pieces)
    return union(Spans(begin, end)), union(Spans(work.start[rows], work.end[rows]))


def _memory(trace: Trace, device: int, bounds: Ints) -> dict[str, Ints]:
    """Peaks of what this device had allocated and reserved in each window; what was there at its begin counts."""
    events = trace.get(MemoryEvents)
    found = {}
    for column, total in (("allocated_peak_bytes", "total_allocated"), ("reserved_peak_bytes", "total_reserved")):
        rows = np.flatnonzero(
            events.valid(total) & (events.device_type != ON_CPU) & (events.device == device) & events.valid("device")
        )
        rows = rows[np.argsort(events.at_ns[rows], kind="stable")]
        found[column] = _peaks(events.at_ns[rows], events.ints(total)[rows], bounds)
    return found


def _peaks(at: Ints, value: Ints, bounds: Ints) -> Ints:
    result = _none(bounds)
    if not len(at):
        return result
    first, last = np.searchsorted(at, bounds[:-1], "left"), np.searchsorted(at, bounds[1:], "left")
    carried = np.where(first > 0, value[np.maximum(first - 1, 0)], 0)
    for i, (a, b) in enumerate(zip(first.tolist(), last.tolist(), strict=True)):
        result[i] = max(int(carried[i]), int(value[a:b].max()) if b > a else 0)
    return result
