"""One rank's host thread and device streams.

A rank's program runs in program order, not in time order: the host launches and goes on, and what the device does
follows from what was launched before. Only communication needs the other ranks; there the program yields its arrival
and gets back when the bytes moved (`rendezvous`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from rankscope.simulator.noise import Noise
from rankscope.simulator.recording import Arrival, DeviceWork, Group, HostSpan, Recorded, RuntimeCall
from rankscope.simulator.scenario import Scenario
from rankscope.simulator.truth import Window

COMPUTE, COMMUNICATION, REPLICATION = 7, 20, 24  # streams
TENSOR, EXPERT, EXPERT_REPLICATION = 28, 32, 36
FORWARD_IN, FORWARD_OUT, BACKWARD_IN, BACKWARD_OUT = 40, 44, 48, 52
CLIPPING = 56
LAUNCH_LATENCY_NS = 6_000  # from a launch call's start to the kernel's, when the device is free
CALL_NS = 4_000
KERNEL_GAP_NS = 1_300  # from the end of what a collective waits for to its start


class Moved(NamedTuple):
    """When a rank's part of a communication moved bytes: from the last arrival to the end."""

    begin_ns: int
    end_ns: int


Splits = tuple[tuple[int, ...], tuple[int, ...]]
Program = Generator[Arrival, Moved, None]
Collective = Generator[Arrival, Moved, int]  # returns the end


class Worker:
    """One rank: a host clock that launches and streams that execute. All times are nanoseconds of common time."""

    def __init__(self, rank: int, scenario: Scenario) -> None:
        self.rank = rank
        self.scenario = scenario
        self.now = 0  # the host's clock
        self.thread = 0  # 0: the training thread, 1: the thread that runs backward nodes
        self.step = 0
        self.ready: dict[int, int] = defaultdict(int, {COMPUTE: 0})  # when each stream has nothing left to do
        self.late_ns = 0  # how long the compute stream idles before the next launch, beside what the launch is told
        self.last_kernel_end = 0  # of the compute kernels launched so far
        self.recorded = Recorded()
        self.windows: list[Window] = []
        self._noise = Noise(scenario.seed, rank)
        self._jitter = np.random.default_rng((scenario.seed, rank, 1))  # apart, so that it moves no other noise
        self._starts: list[int] = []  # of what was launched, one a launch
        self._transfers: list[Moved] = []  # collectives that may still be moving bytes
        self._graph: list[tuple[str, int]] | None = None  # kernels captured so far, with their durations
        self._last_id = 0
        self._seq: dict[tuple[str, bool], int] = defaultdict(int)  # (group, whether send or receive)

    def noisy(self, ns: int) -> int:
        """How long the host works on something that takes so long on average."""
        return self._noise.host(ns, self.scenario.host_noise)

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
        end = max(self.now + self._noise.call(CALL_NS), until_ns)
        call = RuntimeCall(name, self.thread, self.now, end, operator or self._last_id, self._last_id)
        self.recorded.calls.append(call)
        self.now = call.end_ns
        return call

    def launch(self, operator: str, kernel: str, ns: int, late_ns: int = 0, host_ns: int | None = None) -> None:
        """An operator that launches one kernel; with `late_ns`, after the compute stream has been idle that long.

        `host_ns`: what it takes the host, where that is not the usual time of an operator.
        """
        if self._graph is not None:
            self._graph.append((kernel, self._noise.kernel(ns, self.scenario.kernel_noise)))
            return
        host_ns = self.noisy(self.scenario.operator_ns if host_ns is None else host_ns)
        self.now += host_ns // 2
        with self.span(operator, "cpu_op") as op:
            self.now += host_ns - host_ns // 2
            if late_ns or self.late_ns:
                self.starve(late_ns + self.late_ns, COMPUTE)
                self.late_ns = 0
            call = self._launch_call("cudaLaunchKernel", op.id)
            self._execute(kernel, "kernel", COMPUTE, call, self._noise.kernel(ns, self.scenario.kernel_noise))

    @contextmanager
    def graph(self) -> Iterator[None]:
        """The kernels launched inside are nodes of one graph: one launch, and no host in between."""
        self._graph = []
        yield
        captured, self._graph = self._graph, None
        self.now += self.noisy(self.scenario.operator_ns)
        call = self._launch_call("cudaGraphLaunch")
        for kernel, ns in captured:
            self._execute(kernel, "kernel", COMPUTE, call, ns)
        del self._starts[len(self._starts) - len(captured) + 1 :]

    def copy(self, name: str, size: int, ns: int, *, blocking: bool) -> int:
        """A copy on the compute stream, and its end; a blocking one holds the host until it is done."""
        with self.span("aten::copy_", "cpu_op") as op:
            call = self._launch_call("cudaMemcpyAsync", op.id)
            work = self._execute(name, "gpu_memcpy", COMPUTE, call, ns)
            work.bytes = size
            if blocking:
                self.now = call.end_ns = max(self.now, work.end_ns)
        return work.end_ns

    def collective(
        self,
        group: Group,
        name: str,
        kernel: str,
        sizes: tuple[int, int],
        transfer_ns: int,
        stream: int,
        after_ns: int = 0,
        peer: int | None = None,
        splits: Splits = ((), ()),
    ) -> Collective:
        """A collective that starts when the compute launched so far, its own stream and `after_ns` are over.

        `sizes`: bytes of this rank's input and output; `splits`: their elements to and from each member, where uneven.
        With a `peer` it is one end of a send and receive.
        """
        direct = peer is not None
        self._seq[group.name, direct] += 1
        seq = self._seq[group.name, direct]
        with self.span("record_param_comms", "cpu_op") as op:
            call = self._launch_call("cudaLaunchKernelExC", op.id)
            free = max(self.ready[stream], self.ready[COMPUTE], after_ns) + KERNEL_GAP_NS
            start = max(call.start_ns + LAUNCH_LATENCY_NS, free)
            op.arrival = Arrival(group, name, *sizes, seq, self.rank, self.step, start, transfer_ns, peer, *splits)
        moved = yield op.arrival
        end = moved.end_ns
        if (jitter := self.scenario.end_jitter_ns) and not direct:
            end = max(start, end + int(self._jitter.integers(-jitter, jitter + 1)))
        self.ready[stream] = end
        self._transfers.append(moved)
        self.recorded.works.append(
            DeviceWork(kernel, "kernel", stream, start, end, op.id, call.correlation, op.arrival.bytes, op.arrival)
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

    def _launch_call(self, name: str, operator: int = 0) -> RuntimeCall:
        queue = self.scenario.run_ahead
        free = self._starts[-queue] if len(self._starts) >= queue else 0  # when the queue has room again
        return self.call(name, until_ns=free, operator=operator)

    def _execute(self, name: str, category: str, stream: int, call: RuntimeCall, ns: int) -> DeviceWork:
        start = max(call.start_ns + LAUNCH_LATENCY_NS, self.ready[stream] + self._noise.gap_ns())
        end = start + (self._crowded(start, ns) if category == "kernel" else ns)
        work = DeviceWork(name, category, stream, start, end, call.operator, call.correlation)
        self.ready[stream] = work.end_ns
        if category == "kernel":
            self.last_kernel_end = work.end_ns
        self._starts.append(start)
        self.recorded.works.append(work)
        return work

    def _crowded(self, start_ns: int, ns: int) -> int:
        """How long a kernel takes that starts then, while transfers that overlap it slow it down."""
        slower = 1 + self.scenario.contention
        self._transfers = [moved for moved in self._transfers if moved.end_ns > start_ns]
        now, left = start_ns, ns
        for begin, end in sorted(self._transfers) if slower > 1 else ():
            alone = max(0, begin - now)
            crowded = max(0, end - max(now, begin))
            if left <= alone or not crowded:
                continue
            now, left = max(now, begin), left - alone
            done = min(left, round(crowded / slower))
            now, left = now + (crowded if done < left else round(done * slower)), left - done
        return now + left - start_ns
