"""What one trace file says of its devices' memory, put together: a record a device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from rankscope.analyzers.measured import StepLabel
from rankscope.analyzers.memory.creep import Creep, creep
from rankscope.analyzers.memory.fragmentation import Fragmentation, fragmentation
from rankscope.analyzers.memory.places import place
from rankscope.analyzers.memory.timeline import Basis, Line, at_times, lines, peak, step_peaks
from rankscope.analyzers.one_rank.hygiene import set_aside
from rankscope.analyzers.one_rank.steps import Windows, host_windows, marks, timed_extent
from rankscope.analyzers.trace.model import Trace
from rankscope.analyzers.trace.tables import MemoryEvents

KINDS: Final = {1: "cuda", 6: "hip"}  # c10::DeviceType
RECORD: Final = MemoryEvents.record
NO_TOTALS: Final = "the events do not say what was reserved (newer PyTorch writes `Total Reserved`)"
CPU_RESERVES: Final = "the host's allocator reserves nothing"
POINTS: Final = 200  # of a timeline in the JSON


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """One device of one rank. Times count from the file's base; None: not recorded, or not known (see `reasons`)."""

    rank: int | None
    device: str  # "cpu", "cuda:0"
    basis: Basis
    limit_bytes: int | None
    peak_bytes: int
    peak_at_ns: int
    peak_step: StepLabel
    peak_operator: str | None
    peak_module: str | None
    reserved_peak_bytes: int | None
    fragmentation: Fragmentation | None
    creep: Creep
    step_peaks_bytes: list[tuple[int, int]]  # (step, most allocated)
    timeline_bytes: list[tuple[int, int]]  # (when, most allocated then)
    reasons: dict[str, str]


def held(trace: Trace, rank: int | None) -> list[DeviceMemory]:
    """A record of each device with memory events; empty without any."""
    found = lines(trace.get(MemoryEvents))
    if not found:
        return []
    hygiene = set_aside(trace)
    extent = timed_extent(trace, hygiene) or (int(found[0].at_ns[0]), int(found[0].at_ns[-1]))
    windows = host_windows(marks(trace, hygiene), extent)
    return [_device(trace, line, windows, rank) for line in found]


def _device(trace: Trace, line: Line, windows: Windows, rank: int | None) -> DeviceMemory:
    most = peak(line, line.allocated_bytes, windows)
    limit = next((one.memory_bytes for one in trace.meta.limits if one.device == line.device), None)
    limit = None if line.on_cpu else limit
    where = place(trace, most.at_ns)
    peaks = step_peaks(line, line.allocated_bytes, windows)
    waste = fragmentation(line)
    reasons = {} if waste is not None else {"fragmentation": CPU_RESERVES if line.on_cpu else NO_TOTALS}
    if limit is None and not line.on_cpu:
        reasons["limit_bytes"] = "the file does not say how much memory the device has"
    if where.module is None:
        reasons["peak_module"] = "no module was open then, or with_stack=True, with_modules=True was not recorded"
    return DeviceMemory(
        rank=rank,
        device="cpu" if line.on_cpu else f"{KINDS.get(line.device_type, f'type{line.device_type}')}:{line.device}",
        basis=line.basis,
        limit_bytes=limit,
        peak_bytes=most.bytes,
        peak_at_ns=most.at_ns,
        peak_step=most.step,
        peak_operator=where.operator,
        peak_module=where.module,
        reserved_peak_bytes=int(line.reserved_bytes.max()) if line.reserved_bytes is not None else None,
        fragmentation=waste,
        creep=creep(peaks, limit),
        step_peaks_bytes=peaks,
        timeline_bytes=at_times(line, line.allocated_bytes, POINTS),
        reasons=reasons,
    )
