"""Builds the graph of a recorded run: hosts, streams and collectives. The package says what it assumes."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from rankscope.simulator.splicing.graph import Graph
from rankscope.simulator.splicing.meetings import meetings
from rankscope.simulator.splicing.recorded import LOADER, RankFile, RecordedRun

BLOCKING = re.compile(r"Synchronize$|^cuda(Malloc|Free|HostAlloc|FreeHost)$|^cudaMemcpy")
SKEW_NS = 1_000_000  # by which device clocks can be behind their host's: kernels seem to begin before their launch
STREAM_GAP_NS = 1_000  # between two kernels of a stream, at the least
WAKE_NS, WAKE_SHARE = 1_000_000, 0.25  # CPU-only: the next event comes so soon after a collective that was awaited
WAITED_NS = 100_000  # CPU-only: shorter gaps are no waits


@dataclass(frozen=True, slots=True)
class Anchor:
    """A moment at which a host timeline can change its shift. `key`: twice its time, one less where ends shift too."""

    key: int
    moment: int


@dataclass
class Lane:
    """One rank in the graph."""

    file: RankFile
    anchors: list[Anchor] = field(default_factory=list)
    begins: dict[int, int] = field(default_factory=dict)  # moments of device work, by event
    ends: dict[int, int] = field(default_factory=dict)
    launches: dict[int, int] = field(default_factory=dict)  # moments of launches, by device work
    after_work: dict[int, int] = field(default_factory=dict)  # moments at which loaders and operators end, by event


@dataclass
class Waits:
    """The graph of a run, and where each rank's events are in it."""

    graph: Graph
    lanes: dict[int, Lane]
    met: list[list[tuple[int, int]]]  # collectives: rank and event


def waits(run: RecordedRun) -> Waits:
    """The graph of what waited for what."""
    graph = Graph()
    lanes = {rank: Lane(file) for rank, file in run.ranks.items()}
    for lane in lanes.values():
        _device(graph, lane)
        _host(graph, lane)
        _streams(graph, lane)
    met = meetings(run)
    partners = {member: slot for slot in met for member in slot}
    for rank, lane in lanes.items():
        for event in lane.file.device:
            _end(graph, lanes, (rank, event), partners.get((rank, event)))
    return Waits(graph, lanes, met)


def arrival(lane: Lane, event: int) -> int:
    """The moment at which a rank reaches a collective: its kernel's begin, without a device its launch."""
    return lane.begins[event] if lane.file.has_device else lane.launches.get(event, lane.begins[event])


def _device(graph: Graph, lane: Lane) -> None:
    for event in lane.file.device:
        times = lane.file.times[event]
        lane.begins[event] = graph.add(times.begin_ns)
        lane.ends[event] = graph.add(times.end_ns)


def _end(graph: Graph, lanes: dict[int, Lane], member: tuple[int, int], slot: list[tuple[int, int]] | None) -> None:
    """Work ends its duration after its begin; a collective after the last arrival, and begin, that came before its end."""
    lane = lanes[member[0]]
    begin, end = lane.begins[member[1]], lane.ends[member[1]]
    if slot is None:
        graph.follow(end, begin)
        return
    at = graph.recorded_ns
    met = [(lanes[rank], event) for rank, event in slot]
    for moments in ([arrival(*one) for one in met], [other.begins[event] for other, event in met]):
        before = [moment for moment in moments if at[moment] <= at[end]]
        transfer = at[end] - max(at[moment] for moment in before)
        for moment in before:
            graph.follow(end, moment, transfer)


# ---- hosts


def _host(graph: Graph, lane: Lane) -> None:
    """A chain of moments, each after the one before it; where one waited for work, that decides."""
    at, previous = graph.recorded_ns, -1
    entered: dict[int, int] = {}  # by blocking call
    for key, what, event in sorted(_entries(lane)):
        moment = graph.add((key + 1) // 2)
        lane.anchors.append(Anchor(key, moment))
        if what == "launch":
            lane.launches[event] = moment
        elif what == "enter":
            entered[event] = moment
        elif what == "work":
            lane.after_work[event] = moment
        waited = _ended_within(lane, event) if what == "leave" else event if what == "wake" else None
        tail = None  # what the host does itself since the work ended
        if waited is not None:
            tail = at[moment] - at[lane.ends[waited]]
            graph.follow(moment, lane.ends[waited])
        if what == "leave":
            graph.follow(moment, entered[event], tail)
        if previous >= 0:
            graph.follow(moment, previous, tail)
        previous = moment


def _entries(lane: Lane) -> Iterator[tuple[int, str, int]]:
    """What can shift a host: launches, blocking calls, ends of loaders and, without a device, of operators and waits."""
    file, operators = lane.file, _operators(lane)
    for work, call in file.launches.items():
        yield 2 * file.times[call].begin_ns, "launch", work
    for event in file.host:
        times, name = file.times[event], file.name(event)
        if file.has_device and BLOCKING.search(name) and times.end_ns > times.begin_ns:
            yield 2 * times.begin_ns, "enter", event
            yield 2 * times.end_ns - 1, "leave", event
        elif name.startswith(LOADER) or event in operators:
            yield 2 * times.end_ns - 1, "work", event
    if not file.has_device:
        for work, woken_ns in _wakes(lane).items():
            yield 2 * woken_ns, "wake", work


def _operators(lane: Lane) -> set[int]:
    """CPU-only: outermost operators that do work, which a slow processor stretches."""
    if lane.file.has_device:
        return set()
    return set(outermost(lane.file))


def outermost(file: RankFile) -> list[int]:
    """Outermost `aten::` operators of each training thread."""
    found: list[int] = []
    until: dict[object, int] = defaultdict(int)  # by thread
    for event in file.host:
        times = file.times[event]
        if file.name(event).startswith("aten::") and times.begin_ns >= until[file.track(event)]:
            found.append(event)
            until[file.track(event)] = times.end_ns
    return found


def _ended_within(lane: Lane, call: int) -> int | None:
    """The last device work to end while a call blocks, launched before the call's end."""
    times = lane.file.times[call]
    launches = lane.file.launches
    within = [
        event
        for event in lane.file.device
        if times.begin_ns < lane.file.times[event].end_ns <= times.end_ns
        and (event not in launches or lane.file.times[launches[event]].begin_ns < times.end_ns)
    ]
    return max(within, key=lambda event: lane.file.times[event].end_ns, default=None)


def _wakes(lane: Lane) -> dict[int, int]:
    """CPU-only: collectives that the host awaited, and when it went on."""
    file = lane.file
    points = sorted({at for i in file.host for at in (file.times[i].begin_ns, file.times[i].end_ns)})
    awaited: dict[int, int] = {}  # by when the host went on: the last collective to end in that gap
    for work in sorted(file.device, key=lambda event: file.times[event].end_ns):
        end = file.times[work].end_ns
        after = bisect_left(points, end)
        if not 0 < after < len(points):
            continue
        gap, wake = points[after] - points[after - 1], points[after] - end
        if gap >= WAITED_NS and wake <= max(WAKE_NS, round(WAKE_SHARE * gap)):
            awaited[points[after]] = work
    return {work: at for at, work in awaited.items()}


# ---- streams


def _streams(graph: Graph, lane: Lane) -> None:
    """Work starts after its launch, its stream, and where the host made it wait, the other streams."""
    file, at = lane.file, graph.recorded_ns
    latencies = [at[lane.begins[event]] - at[launch] for event, launch in lane.launches.items()]
    latency = min((ns for ns in latencies if ns >= -SKEW_NS), default=0)
    fenced = _fenced(file)
    last_on: dict[object, int] = {}
    launched: dict[object, list[tuple[int, int]]] = defaultdict(list)  # by stream: launch time and event, launch order
    for event, moment in sorted(lane.launches.items(), key=lambda item: at[item[1]]):
        launched[file.track(event)].append((at[moment], event))
    for event in file.device:
        begin, stream = lane.begins[event], file.track(event)
        bounds: list[tuple[int, int, int]] = []  # ready at, moment, least distance
        if event in lane.launches:
            bounds.append((at[lane.launches[event]] + latency, lane.launches[event], latency))
        if stream in last_on:
            end = lane.ends[last_on[stream]]
            overlap = at[end] > at[begin]
            before = lane.begins[last_on[stream]] if overlap else end
            bounds.append((at[before], before, at[begin] - at[before] if overlap else STREAM_GAP_NS))
        if event in fenced:
            bounds += [(at[e], e, 0) for e in _others(lane, launched, event, at)]
        bounds = [bound for bound in bounds if at[bound[1]] <= at[begin] + SKEW_NS]
        decisive = max(bounds, default=None)
        for bound in bounds:
            graph.follow(begin, bound[1], None if bound is decisive else bound[2])
        last_on[stream] = event


def _others(lane: Lane, launched: dict[object, list[tuple[int, int]]], event: int, at: list[int]) -> list[int]:
    """Ends of what was launched last before this on each other stream, and had ended when this began."""
    found = []
    launch = at[lane.launches[event]]
    for stream, works in launched.items():
        if stream == lane.file.track(event):
            continue
        place = bisect_left(works, (launch, -1))
        if place and at[lane.ends[works[place - 1][1]]] <= at[lane.begins[event]]:
            found.append(lane.ends[works[place - 1][1]])
    return found


def _fenced(file: RankFile) -> set[int]:
    """Work before whose launch, since the one before it, a stream was made to wait for an event; every collective."""
    fences = sorted(file.times[i].begin_ns for i in file.host if file.name(i) == "cudaStreamWaitEvent")
    by_launch = sorted((file.times[call].begin_ns, work) for work, call in file.launches.items())
    previous, found = 0, set()
    for begin, work in by_launch:
        if file.is_collective(work) or bisect_left(fences, previous) < bisect_right(fences, begin):
            found.add(work)
        previous = begin
    return found
