"""What the profiler of one rank sees: spans and calls on the host, work on the device, arrivals at collectives."""

from __future__ import annotations

from dataclasses import dataclass, field

FLOAT_BYTES = 4


@dataclass(frozen=True, slots=True)
class Group:
    """A process group. `name` is what Kineto calls it; members are global ranks in order."""

    name: str
    description: str
    ranks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Arrival:
    """A rank has reached a collective, or one end of a send and receive: then `peer` is the other end's rank."""

    group: Group
    collective: str
    in_bytes: int  # this rank's input and output
    out_bytes: int
    seq: int
    rank: int
    step: int
    at_ns: int
    transfer_ns: int
    peer: int | None = None
    in_splits: tuple[int, ...] = ()  # all-to-all: elements to each member, and from each
    out_splits: tuple[int, ...] = ()

    @property
    def bytes(self) -> int:
        """The larger of input and output."""
        return max(self.in_bytes, self.out_bytes)


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
    device: int = 0  # of a process that drives several, counted from its first


@dataclass(frozen=True, slots=True)
class Allocation:
    """The device's allocator gave `bytes` away (negative: took them back); what is then allocated and reserved."""

    at_ns: int
    bytes: int
    allocated_bytes: int
    reserved_bytes: int


@dataclass(slots=True)
class Recorded:
    """What the profiler of one rank saw."""

    spans: list[HostSpan] = field(default_factory=list)
    calls: list[RuntimeCall] = field(default_factory=list)
    works: list[DeviceWork] = field(default_factory=list)
    allocations: list[Allocation] = field(default_factory=list)
