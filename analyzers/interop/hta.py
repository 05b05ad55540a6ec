"""Holistic Trace Analysis (HTA): its figures as it computes them, from our tables.

`peers.hta` is its temporal breakdown without its rounding. Here is its arithmetic, so that what is left between the two
tools can be told. Source: HTA 0.6.1, read for its definitions; nothing of it is used here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from rankscope.analyzers.interop.hta_events import (
    COMMUNICATION,
    COMPUTATION,
    KINDS,
    MEMORY,
    OTHER,
    Held,
    held,
    kinds_of,
)
from rankscope.analyzers.intervals import Ints
from rankscope.analyzers.one_rank import kernel_kind
from rankscope.analyzers.one_rank.launches import device_kinds
from rankscope.analyzers.trace.model import Trace
from rankscope.analyzers.trace.tables import DeviceEvents

_WORDS: Final = ("compute", "communication", "memory", "of no class")
IDLE: Final = ("host_wait", "kernel_wait", "other")
CONSECUTIVE_NS: Final = 30_000  # `consecutive_kernel_delay`, 30 by default


@dataclass(frozen=True, slots=True)
class Breakdown:
    """HTA's temporal breakdown of one rank, in microseconds as it prints them."""

    kernel_time_us: float
    compute_time_us: float
    non_compute_time_us: float
    idle_time_us: float


@dataclass(frozen=True, slots=True)
class Kernel:
    """A row of HTA's kernel breakdown, microseconds."""

    sum_us: float
    max_us: float
    min_us: float
    mean_us: float


@dataclass(frozen=True, slots=True)
class LaunchStats:
    """Pairs of a launch and what it launched, microseconds: the call, the event, and from one's end to the other's begin.

    HTA draws histograms of these three; here are their sums and the longest delay.
    """

    pairs: int
    cpu_us: float
    gpu_us: float
    delay_us: float
    longest_delay_us: float


@dataclass(frozen=True, slots=True)
class RankFigures:
    """What HTA says of one rank, or would say; None where it has no figure.

    `kernel_types` is by what ran at once, `kernels` by name, most time first, `idle` by cause; all in microseconds.
    """

    breakdown: Breakdown | None = None
    overlap_percent: float | None = None
    kernel_types: Mapping[str, float] = field(default_factory=dict)
    kernels: Mapping[str, Kernel] = field(default_factory=dict)
    idle: Mapping[str, float] = field(default_factory=dict)
    launches: LaunchStats | None = None


@dataclass(frozen=True, slots=True)
class Otherwise:
    """Device events of one kind here that HTA counts as another."""

    ours: str
    theirs: str
    name: str  # the one with most time
    total_ns: int


def figures_of(trace: Trace, *, last_step: bool, rounded: bool) -> RankFigures:
    """All of HTA's figures from our tables: by its arithmetic, or not `rounded` by its definitions in nanoseconds."""
    events = held(trace, last_step=last_step, rounded=rounded)
    return RankFigures(
        breakdown(events),
        overlap_percent(events),
        kernel_types(events),
        kernels(events, trace.names),
        idle(events),
        launch_stats(events),
    )


def breakdown(events: Held) -> Breakdown | None:
    """`get_temporal_breakdown`; None where HTA has no device event to go by."""
    if not len(events):
        return None
    start, end = merged(*events.of())
    begin, finish = merged(*events.of(COMPUTATION))
    span, computing = int(end[-1] - start[0]), int((finish - begin).sum())
    idle = span - int((end - start).sum())
    return Breakdown(span / 1000, computing / 1000, (span - computing - idle) / 1000, idle / 1000)


def overlap_percent(events: Held) -> float | None:
    """`get_comm_comp_overlap`: the share of communication under compute; None without communication."""
    start, end = merged(*events.of(COMMUNICATION))
    whole = int((end - start).sum())
    both = _running(events, (COMPUTATION, COMMUNICATION)).get(0b11, 0)
    return 100 * both / whole if whole else None


def kernel_types(events: Held) -> dict[str, float]:
    """`get_gpu_kernel_breakdown`, its first table of one rank: microseconds by what ran at once."""
    kinds = (COMPUTATION, COMMUNICATION, MEMORY)
    result: dict[str, float] = {}
    for running, ns in _running(events, kinds).items():
        name = " overlapping ".join(KINDS[kind] for bit, kind in enumerate(kinds) if running >> bit & 1)
        result[name] = result.get(name, 0) + ns / 1000
    return result


def kernels(events: Held, names: Sequence[str]) -> dict[str, Kernel]:
    """`get_gpu_kernel_breakdown`, its second table, every kernel by itself; most time first."""
    rows = np.flatnonzero(events.kind != OTHER)
    took = (events.end - events.start)[rows]
    rows = rows[np.lexsort((took, events.name_id[rows]))]
    took = (events.end - events.start)[rows]
    name_id, first = np.unique(events.name_id[rows], return_index=True)
    found = []
    for name, of in zip(name_id.tolist(), np.split(took, first[1:]) if len(rows) else (), strict=True):
        shortest, longest, total = int(of[0]), int(of[-1]), int(of.sum())
        found.append((names[name], Kernel(total / 1000, longest / 1000, shortest / 1000, total / len(of) / 1000)))
    return dict(sorted(found, key=lambda each: -each[1].sum_us))


def idle(events: Held) -> dict[str, float]:
    """`get_idle_time_breakdown`, all streams together: microseconds between events next to each other on a stream.

    `host_wait` where the later one was launched after the earlier one's end, else `kernel_wait` below 30 us. A gap is
    negative where two events of a stream overlap. An event without a launch waits for no host; HTA takes it for launched
    when the first event of the file begins.
    """
    rows = np.flatnonzero(~events.synchronisation)
    rows = rows[np.lexsort((events.start[rows], events.stream[rows]))]
    before, after = rows[:-1], rows[1:]
    same = events.stream[before] == events.stream[after]
    before, after = before[same], after[same]
    gap = events.start[after] - events.end[before]
    host = events.launched[after] & (events.called[after] > events.end[before])
    short = ~host & (gap < CONSECUTIVE_NS)
    members = zip(IDLE, (host, short, ~host & ~short), strict=True)
    return {category: int(gap[rows].sum()) / 1000 for category, rows in members}


def launch_stats(events: Held) -> LaunchStats:
    """`get_cuda_kernel_launch_stats`; a launch under another name than HTA's is none."""
    rows = np.flatnonzero(events.launching)
    delay = np.maximum(events.start[rows] - events.returned[rows], 0)
    return LaunchStats(
        pairs=len(rows),
        cpu_us=int((events.returned - events.called)[rows].sum()) / 1000,
        gpu_us=int((events.end - events.start)[rows].sum()) / 1000,
        delay_us=int(delay.sum()) / 1000,
        longest_delay_us=int(delay.max(initial=0)) / 1000,
    )


def last_step_us(trace: Trace) -> float:
    """Durations of the device events that HTA leaves out with the last step; 0 where it leaves none out."""
    with_it, without = (held(trace, last_step=taken, rounded=False) for taken in (True, False))
    return int((with_it.end - with_it.start).sum() - (without.end - without.start).sum()) / 1000


def counted_otherwise(trace: Trace) -> list[Otherwise]:
    """Device events that HTA puts into another class than rankscope does, most time first."""
    events, kinds = trace.get(DeviceEvents), device_kinds(trace)
    theirs = kinds_of(events.name_id, trace)
    copies = np.where(kinds == kernel_kind.COMMUNICATION, COMMUNICATION, MEMORY)
    ours = np.where(kinds == kernel_kind.COMPUTE, COMPUTATION, copies)
    found = []
    for mine in (COMMUNICATION, MEMORY, COMPUTATION):
        for other in range(len(KINDS)):
            rows = np.flatnonzero((ours == mine) & (theirs == other) & (kinds != kernel_kind.NOTHING))
            if mine != other and len(rows):
                names, of = np.unique(events.name_id[rows], return_inverse=True)
                total = np.bincount(of, events.dur_ns[rows])
                name = trace.names[int(names[np.argmax(total)])]
                found.append(Otherwise(_WORDS[mine], _WORDS[other], name, int(total.sum())))
    return sorted(found, key=lambda other: -other.total_ns)


def merged(start: Ints, end: Ints) -> tuple[Ints, Ints]:
    """Groups of events that touch, in order; an event that ends before it begins may be a group of less than no time."""
    if not len(start):
        return start, end
    order = np.argsort(start, kind="stable")
    start, end = start[order], end[order]
    reach = np.maximum.accumulate(end)
    opens = np.flatnonzero(np.concatenate(([True], start[1:] > reach[:-1])))
    return start[opens], np.maximum.reduceat(end, opens)


def _running(events: Held, kinds: tuple[int, ...]) -> dict[int, int]:
    """Nanoseconds by the sum of what ran, each kind a bit; a group of less than no time takes its bit away meanwhile."""
    times, changes = [], []
    for bit, kind in enumerate(kinds):
        start, end = merged(*events.of(kind))
        times += [start, end]
        changes += [np.full(len(start), 1 << bit), np.full(len(end), -(1 << bit))]
    at, change = np.concatenate(times), np.concatenate(changes)
    order = np.argsort(at, kind="stable")
    at, running = at[order], np.cumsum(change[order])
    result: dict[int, int] = defaultdict(int)
    for state, ns in zip(running[:-1].tolist(), np.diff(at).tolist(), strict=True):
        if state > 0 and ns:
            result[state] += ns
    return dict(result)
