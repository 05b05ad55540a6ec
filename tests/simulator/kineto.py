"""Writes a rank's recording as PyTorch's profiler does (torch >= 2.8): Kineto's layout, arguments, ids and arrows.

Microseconds carry three decimals and count from `baseTimeNanoseconds`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rankscope.simulator.hardware import Properties
from rankscope.simulator.recording import (
    FLOAT_BYTES,
    Allocation,
    Arrival,
    DeviceWork,
    Group,
    HostSpan,
    Recorded,
    RuntimeCall,
)

BASE_NS = 1_767_225_600_000_000_000  # baseTimeNanoseconds, the same in every file
ORIGIN_NS = 864_000_000_000_000  # common time 0 after the base: ten days of uptime
CALLBACK_IDS = {
    "cudaLaunchKernel": 211, "cudaLaunchKernelExC": 430, "cudaMemcpyAsync": 41, "cudaStreamSynchronize": 131,
    "cudaDeviceSynchronize": 165, "cudaStreamWaitEvent": 147, "cudaMalloc": 20, "cudaFree": 22,
    "cudaGraphLaunch": 311,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class RankTrace:
    """One rank's recording, ready to be written."""

    rank: int
    world: int
    host: str
    device: int
    devices: int  # how many it drives, from that one on
    properties: Properties  # of the device
    backend: str
    clock_offset_ns: int
    clock_drift_ppb: int
    groups: tuple[Group, ...]
    recorded: Recorded

    @property
    def pid(self) -> int:
        """The process, and its training thread."""
        return 41_000 + self.rank

    def text(self) -> str:
        """The whole file."""
        begin, end = self._span_ns()
        events = [*self._process_names(begin), *self._events(), *self._closing(begin, end)]
        head = "".join(f"  {json.dumps(key)}: {json.dumps(value)},\n" for key, value in self._head().items())
        name = json.dumps(f"rank-{self.rank}.json")
        body = ",\n".join(events)
        return f'{{\n{head}  "traceEvents": [\n{body}\n  ],\n  "traceName": {name}\n}}\n'

    def _head(self) -> dict[str, object]:
        groups = [
            {
                "pg_name": group.name, "pg_desc": group.description, "backend_config": f"cuda:{self.backend}",
                "pg_size": len(group.ranks), "ranks": list(group.ranks),
            }
            for group in self.groups
        ]  # fmt: skip
        distributed = {
            "backend": self.backend, "rank": self.rank, "world_size": self.world, "pg_count": len(groups),
            "pg_config": groups, **({"nccl_version": "2.27.5"} if self.backend == "nccl" else {}),
        }  # fmt: skip
        return {
            "schemaVersion": 1,
            "deviceProperties": [{"id": self.device + i, **self.properties} for i in range(self.devices)],
            **({"distributedInfo": distributed} if self.groups else {}),
            "cuda_runtime_version": 12_080,
            "cuda_driver_version": 12_080,
            "trace_id": f"{self.rank + 1:032X}",
            "host_name": self.host,
            "displayTimeUnit": "ms",
            "baseTimeNanoseconds": BASE_NS,
        }  # fmt: skip

    def _span_ns(self) -> tuple[int, int]:
        recorded = self.recorded
        everything: list[HostSpan | RuntimeCall | DeviceWork] = [*recorded.spans, *recorded.calls, *recorded.works]
        begin, end = min(e.start_ns for e in everything), max(e.end_ns for e in everything)
        return begin - 50_000, end + 50_000

    def _process_names(self, begin_ns: int) -> Iterator[str]:
        devices = range(self.device, self.device + self.devices)
        for pid, name, label in ((self.pid, "python3", "CPU"), *((d, "python3", f"GPU {d}") for d in devices)):
            where = f'"ts": {self._at(begin_ns)}, "pid": {pid}, "tid": 0'
            yield _event(f'"name": "process_name", "ph": "M", {where}', {"name": name})
            yield _event(f'"name": "process_labels", "ph": "M", {where}', {"labels": label})

    def _closing(self, begin_ns: int, end_ns: int) -> Iterator[str]:
        where = '"pid": "Spans", "tid": "PyTorch Profiler"'
        time = f'"ts": {self._at(begin_ns)}, "dur": {_micros(self.own_ns(end_ns) - self.own_ns(begin_ns))}'
        what = '"ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)"'
        yield _event(f"{what}, {where},\n    {time}", {"Op count": 0})
        where = f'"pid": "", "tid": "", "ts": {self._at(end_ns)}'
        yield _event(f'"name": "Record Window End", "ph": "i", "s": "g", {where}')

    def _events(self) -> Iterator[str]:
        for span in self.recorded.spans:
            yield self._span(span)
        for call in self.recorded.calls:
            yield self._call(call)
        calls = {call.correlation: call for call in self.recorded.calls}
        for work in self.recorded.works:
            yield self._work(work)
            yield from self._arrow(calls.pop(work.correlation, None), work)
        for allocation in self.recorded.allocations:
            yield self._allocation(allocation)

    def _span(self, span: HostSpan) -> str:
        if span.category == "overhead":
            return self._timed(span, span.thread, None)
        if span.category == "python_function":
            return self._timed(span, span.thread, {"Ev Idx": span.id})
        args: dict[str, object] = {"External id": span.id, "Record function id": 0}
        if span.arrival is not None:
            arrival, ranks = span.arrival, span.arrival.group.ranks
            args |= collective_args(arrival)
            args["Rank"] = ranks.index(arrival.rank if arrival.peer is None else arrival.peer)
        return self._timed(span, span.thread, args | {"Ev Idx": span.id})

    def _allocation(self, allocation: Allocation) -> str:
        what = f'"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": {self.pid}'
        said = {
            "Total Reserved": allocation.reserved_bytes, "Total Allocated": allocation.allocated_bytes,
            "Bytes": allocation.bytes, "Addr": 139_637_976_727_552, "Device Id": self.device, "Device Type": 1,
        }  # fmt: skip
        return _event(f'{what}, "tid": {self.pid},\n    "ts": {self._at(allocation.at_ns)}', said)

    def _call(self, call: RuntimeCall) -> str:
        ids = {"External id": call.operator, "cbid": CALLBACK_IDS[call.name], "correlation": call.correlation}
        return self._timed(call, call.thread, ids)

    def _work(self, work: DeviceWork) -> str:
        ids = {"External id": work.operator}
        device = self.device + work.device
        where = {"device": device, "context": 1, "stream": work.stream, "correlation": work.correlation}
        if work.category == "kernel":
            shape = {
                "registers per thread": 96, "shared memory": 0, "blocks per SM": 4.0, "warps per SM": 32.0,
                "grid": [528, 1, 1], "block": [256, 1, 1], "est. achieved occupancy %": 50,
            }  # fmt: skip
            communication = collective_args(work.arrival) if work.arrival else {}
            return self._timed(work, work.stream, {**ids, "queued": 0, **where, **shape, **communication})
        rate = work.bytes / max(1, work.end_ns - work.start_ns)
        return self._timed(work, work.stream, {**ids, **where, "bytes": work.bytes, "memory bandwidth (GB/s)": rate})

    def _timed(self, event: HostSpan | RuntimeCall | DeviceWork, track: int, args: Mapping[str, object] | None) -> str:
        if isinstance(event, DeviceWork):
            category, pid, tid = event.category, self.device + event.device, track
        else:
            category = event.category if isinstance(event, HostSpan) else "cuda_runtime"
            pid, tid = (-1, 0) if category == "overhead" else (self.pid, self.pid + track)
        what = f'"ph": "X", "cat": "{category}", "name": {json.dumps(event.name)}, "pid": {pid}, "tid": {tid}'
        start, end = self.own_ns(event.start_ns), self.own_ns(event.end_ns)
        time = f'"ts": {_micros(start)}, "dur": {_micros(end - start)}'
        return _event(f"{what},\n    {time}", args)

    def _arrow(self, call: RuntimeCall | None, work: DeviceWork) -> Iterator[str]:
        """From a launch to its work; a graph's other kernels (no call) end the arrow that the first one began."""
        what, name = f'"id": {work.correlation}', '"cat": "ac2g", "name": "ac2g"'
        if call is not None:
            host = f'"pid": {self.pid}, "tid": {self.pid + call.thread}, "ts": {self._at(call.start_ns)}'
            yield _event(f'"ph": "s", {what}, {host}, {name}')
        device = f'"pid": {self.device + work.device}, "tid": {work.stream}, "ts": {self._at(work.start_ns)}'
        yield _event(f'"ph": "f", {what}, {device}, {name}, "bp": "e"')

    def _at(self, ns: int) -> str:
        return _micros(self.own_ns(ns))

    def own_ns(self, ns: int) -> int:
        """Common time by this rank's clock, after the base."""
        return ORIGIN_NS + self.clock_offset_ns + ns + ns * self.clock_drift_ppb // 10**9


def collective_args(arrival: Arrival) -> dict[str, object]:
    """The arguments that PyTorch writes to a collective's operator and kernel."""
    members = len(arrival.group.ranks)
    received, sent = (str(list(splits)) for splits in (arrival.out_splits, arrival.in_splits))
    args: dict[str, object] = {
        "Collective name": arrival.collective,
        "In msg nelems": arrival.in_bytes // FLOAT_BYTES,
        "Out msg nelems": arrival.out_bytes // FLOAT_BYTES,
        "Group size": members,
        "dtype": "Float",
        "In split size": sent,
        "Out split size": received,
        "Process Group Name": arrival.group.name,
        "Process Group Description": arrival.group.description,
        "Process Group Ranks": str(list(arrival.group.ranks)),
        "Seq": arrival.seq,
    }
    if arrival.peer is not None:
        args["Dst Rank" if arrival.collective == "send" else "Src Rank"] = arrival.peer
    return args


def _micros(ns: int) -> str:
    return f"{ns // 1000}.{ns % 1000:03d}"


def _event(fields: str, args: Mapping[str, object] | None = None) -> str:
    if args is None:
        return f"  {{\n    {fields}\n  }}"
    values = ", ".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in args.items())
    return f'  {{\n    {fields},\n    "args": {{\n      {values}\n    }}\n  }}'
