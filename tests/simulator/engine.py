"""One rank's host thread and device streams, and the rendezvous of ranks in collectives.

A rank's program runs in program order, not in time order: the host launches and goes on, and what the device does
follows from what was launched before. Only a collective needs the other ranks; there the program yields its arrival
and gets the end back.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from rankscope.simulator.scenario import Scenario
from rankscope.simulator.truth import Meeting, Window

COMPUTE, COMMUNICATION, REPLICATION = 7, 20, 24  # streams
LAUNCH_LATENCY_NS = 6_000  # from a launch call's start to the kernel's, when the device is free
CALL_NS = 4_000
KERNEL_GAP_NS = 1_300  # between two kernels of one stream
LAUNCH_QUEUE = 1_024  # launches the host can be ahead of the device


@dataclass(frozen=True, slots=True)
class Group:
    """A process group. `name` is what Kineto calls it; members are global ranks in order."""

    name: str
    description: str
    ranks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Arrival:
    """A rank has reached a collective; it is resumed with the time at which the collective ends."""

    group: Group
    collective: str
    bytes: int
    seq: int
    rank: int
    step: int
    at_ns: int
    transfer_ns: int


Program = Generator[Arrival, int, None]
Collective = Generator[Arrival, int, int]  # returns the end


@dataclass(slots=True)
class HostSpan:
    """An operator, annotation or Python function on a host thread. `id` ties device work to it."""

    name: str
    category: str
    thread: int
    start_ns: int
    end_ns: int
    id: int
    arrival: Arrival | None = None


@dataclass(slots=True)
class RuntimeCall:
    """A call of the CUDA runtime; `correlation` ties it to the device work it started."""

    name: str
    thread: int
    start_ns: int
    end_ns: int
    operator: int
    correlation: int


@dataclass(slots=True)
class DeviceWork:
    """A kernel, copy or fill on a stream."""

    name: str
    category: str
    stream: int
    start_ns: int
    end_ns: int
    operator: int
    correlation: int
    bytes: int = 0
    arrival: Arrival | None = None


@dataclass(slots=True)
class Recorded:
    """What the profiler of one rank saw."""

    spans: list[HostSpan] = field(default_factory=list)
    calls: list[RuntimeCall] = field(default_factory=list)
    works: list[DeviceWork] = field(default_factory=list)


class Worker:
    """One rank: a host clock that launches and streams that execute. All times are nanoseconds of common time."""

    def __init__(self, rank: int, scenario: Scenario) -> None:
        self.rank = rank
        self.scenario = scenario
        self.now = 0  # the host's clock
        self.thread = 0  # 0: the training thread, 1: the thread that runs backward nodes
        self.step = 0
        self.ready = dict.fromkeys((COMPUTE, COMMUNICATION, REPLICATION), 0)  # when each stream has nothing left to do
        self.last_kernel_end = 0  # of the compute kernels launched so far
        self.recorded = Recorded()
        self.windows: list[Window] = []
        self._noise = np.random.default_rng((scenario.seed, rank))
        self._jitter = np.random.default_rng((scenario.seed, rank, 1))  # apart, so that it moves no other noise
        self._starts: list[int] = []
        self._last_id = 0
        self._seq: dict[str, int] = {}

    def noisy(self, ns: int, spread: float) -> int:
        """This duration with noise; never less than half of it."""
        return max(ns // 2, round(ns * (1 + spread * float(self._noise.standard_normal()))))

    @contextmanager
    def span(self, name: str, category: str = "user_annotation", arrival: Arrival | None = None) -> Iterator[HostSpan]:
        """What the host does inside lies in a span of this name."""
        self._last_id += 1
        span = HostSpan(name, category, self.thread, self.now, self.now, self._last_id, arrival)
        self.recorded.spans.append(span)
        self.now += 1_000
        yield span
        self.now += 1_000
        span.end_ns = self.now

    def call(self, name: str, until_ns: int = 0, operator: int = 0) -> RuntimeCall:
        """A runtime call; it blocks the host until `until_ns` where that is later."""
        self._last_id += 1
        end = max(self.now + CALL_NS, until_ns)
        call = RuntimeCall(name, self.thread, self.now, end, operator or self._last_id, self._last_id)
        self.recorded.calls.append(call)
        self.now = call.end_ns
        return call

    def launch(self, operator: str, kernel: str, ns: int, late_ns: int = 0) -> None:
        """An operator that launches one kernel; with `late_ns`, after the compute stream has been idle that long."""
        host_ns = self.noisy(self.scenario.operator_ns, self.scenario.host_noise)
        self.now += host_ns // 2
        with self.span(operator, "cpu_op") as op:
            self.now += host_ns - host_ns // 2
            if late_ns:
                self.starve(late_ns, COMPUTE)
            call = self._launch_call("cudaLaunchKernel", op.id)
            self._execute(kernel, "kernel", COMPUTE, call, self.noisy(ns, self.scenario.kernel_noise))

    def copy(self, name: str, size: int, ns: int, *, blocking: bool) -> None:
        """A copy on the compute stream; a blocking one holds the host until it is done."""
        with self.span("aten::copy_", "cpu_op") as op:
            call = self._launch_call("cudaMemcpyAsync", op.id)
            work = self._execute(name, "gpu_memcpy", COMPUTE, call, ns)
            work.bytes = size
            if blocking:
                self.now = call.end_ns = max(self.now, work.end_ns)

    def collective(
        self, group: Group, name: str, kernel: str, size: int, transfer_ns: int, stream: int, after_ns: int = 0
    ) -> Collective:
        """A collective that starts when the compute launched so far, its own stream and `after_ns` are over."""
        seq = self._seq[group.name] = self._seq.get(group.name, 0) + 1
        with self.span("record_param_comms", "cpu_op") as op:
            call = self._launch_call("cudaLaunchKernelExC", op.id)
            free = max(self.ready[stream], self.ready[COMPUTE], after_ns) + KERNEL_GAP_NS
            start = max(call.start_ns + LAUNCH_LATENCY_NS, free)
            op.arrival = Arrival(group, name, size, seq, self.rank, self.step, start, transfer_ns)
        end = yield op.arrival
        if jitter := self.scenario.end_jitter_ns:
            end = max(start, end + int(self._jitter.integers(-jitter, jitter + 1)))
        self.ready[stream] = end
        self.recorded.works.append(
            DeviceWork(kernel, "kernel", stream, start, end, op.id, call.correlation, size, op.arrival)
        )
        return end

    def wait_until(self, end_ns: int) -> None:
        """Make the compute stream wait for work that ends then on another stream; the host goes on."""
        self.call("cudaStreamWaitEvent")
        self.ready[COMPUTE] = max(self.ready[COMPUTE], end_ns)

    def drain(self, call: str) -> None:
        """Block the host until the device has nothing left to do."""
        self.call(call, until_ns=max(self.ready.values()) + 2_000)

    def starve(self, ns: int, *streams: int) -> None:
        """Keep the host busy until these streams (none given: all) have been without work for `ns`."""
        self.now = max(self.now, *(self.ready[stream] for stream in streams or self.ready)) + ns

    def begin_window(self, step: int) -> None:
        """The step's mark begins now: close the last window and open this one."""
        begin = max(self.now, self.last_kernel_end)
        self._close_window(begin)
        self.windows.append(Window(self.rank, step, begin, begin))
        self.step = step

    def end_windows(self) -> None:
        """The last step's mark has ended."""
        self._close_window(max(self.now, self.last_kernel_end))

    def _close_window(self, at_ns: int) -> None:
        if self.windows:
            last = self.windows[-1]
            self.windows[-1] = Window(last.rank, last.step, last.begin_ns, at_ns)

    def _launch_call(self, name: str, operator: int) -> RuntimeCall:
        free = self._starts[-LAUNCH_QUEUE] if len(self._starts) >= LAUNCH_QUEUE else 0  # when the queue has room again
        return self.call(name, until_ns=free, operator=operator)

    def _execute(self, name: str, category: str, stream: int, call: RuntimeCall, ns: int) -> DeviceWork:
        start = max(call.start_ns + LAUNCH_LATENCY_NS, self.ready[stream] + KERNEL_GAP_NS)
        work = DeviceWork(name, category, stream, start, start + ns, call.operator, call.correlation)
        self.ready[stream] = work.end_ns
        if category == "kernel":
            self.last_kernel_end = work.end_ns
        self._starts.append(start)
        self.recorded.works.append(work)
        return work


def run(workers: Sequence[Worker], program: Callable[[Worker], Program]) -> list[Meeting]:
    """Run the program on every worker to its end; return the collectives in the order in which they came together."""
    programs = {worker.rank: program(worker) for worker in workers}
    meetings: list[Meeting] = []
    waiting: dict[tuple[str, int], dict[int, Arrival]] = {}
    resume: list[tuple[int, int | None]] = [(rank, None) for rank in programs]
    while resume:
        rank, end = resume.pop()
        try:
            arrival = programs[rank].send(end) if end is not None else next(programs[rank])
        except StopIteration:
            continue
        there = waiting.setdefault((arrival.group.name, arrival.seq), {})
        there[rank] = arrival
        if len(there) == len(arrival.group.ranks):
            del waiting[(arrival.group.name, arrival.seq)]
            met = meeting(list(there.values()))
            meetings.append(met)
            resume += [(member, met.end_ns) for member in there]
    if waiting:
        raise RuntimeError(f"ranks wait for each other for ever: {sorted(waiting)}")
    return meetings


def meeting(arrivals: Sequence[Arrival]) -> Meeting:
    """The transfer begins when the last rank arrives, and all end together."""
    first = arrivals[0]
    end = max(a.at_ns for a in arrivals) + max(a.transfer_ns for a in arrivals)
    by_rank = {a.rank: a.at_ns for a in sorted(arrivals, key=lambda a: a.rank)}
    return Meeting(first.group.name, first.seq, first.collective, first.bytes, first.step, by_rank, end)
