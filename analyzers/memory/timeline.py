"""What a device held over time, from the profiler's memory events: a line a device, its peak and the peak of each step.

Newer traces write the totals after each event. Older ones write only what came and went: then the
sum counts from the recording's begin, raised so that it never falls below 0. What was there before and stayed is not in
it, so it is a lower bound, and says so (`basis`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal

import numpy as np

from rankscope.analyzers.measured import StepLabel
from rankscope.analyzers.one_rank.steps import Windows
from rankscope.analyzers.trace.table import Bools, Ints
from rankscope.analyzers.trace.tables import MemoryEvents

Basis = Literal["totals", "lower_bound"]
MOST_DEVICES: Final = 64  # of one file
ON_CPU: Final = 0  # MemoryEvents.device_type; 1 is CUDA, 6 is HIP


@dataclass(frozen=True, slots=True)
class Line:
    """One device's line, by time. `reserved_bytes` is None where the events do not say what the allocator held."""

    device_type: int
    device: int
    basis: Basis
    at_ns: Ints
    allocated_bytes: Ints
    reserved_bytes: Ints | None

    @property
    def on_cpu(self) -> bool:
        """Whether this is the host's memory."""
        return self.device_type == ON_CPU


@dataclass(frozen=True, slots=True)
class Peak:
    """The most that was held, and the first time that it was. `at_ns` counts from the file's base."""

    bytes: int
    at_ns: int
    step: StepLabel  # "before", a step's number, "after"; None without marks


def lines(events: MemoryEvents) -> list[Line]:
    """The lines of the devices in the file, those of the host first, at most MOST_DEVICES."""
    known = events.valid("device_type") & events.valid("device")
    places = np.unique(np.stack((events.device_type[known], events.device[known])), axis=1).T
    found = (_line(events, known, int(kind), int(device)) for kind, device in places[:MOST_DEVICES])
    return [line for line in found if line is not None]


def peak(line: Line, values: Ints, windows: Windows | None) -> Peak:
    """The most of `values`, one of the line's columns."""
    at = int(values.argmax())
    when = int(line.at_ns[at])
    return Peak(int(values[at]), when, step_at(windows, when))


def step_at(windows: Windows | None, at_ns: int) -> StepLabel:
    """The window that this moment belongs to; None outside of all of them."""
    if windows is None:
        return None
    i = int(np.searchsorted(windows.bounds, at_ns, "right")) - 1
    return windows.labels[i] if 0 <= i < len(windows.labels) else None


def step_peaks(line: Line, values: Ints, windows: Windows) -> list[tuple[int, int]]:
    """(step, most that was held in it) of each marked step; what was there at its begin counts.

    A step before the line's first event is left out: what was held then is not known.
    """
    first = np.searchsorted(line.at_ns, windows.bounds[:-1], "left")
    last = np.searchsorted(line.at_ns, windows.bounds[1:], "left")
    found = []
    for label, a, b in zip(windows.labels, first.tolist(), last.tolist(), strict=True):
        if isinstance(label, int) and b > 0:
            found.append((label, int(values[max(a - 1, 0) : b].max())))
    return found


def at_times(line: Line, values: Ints, most: int) -> list[tuple[int, int]]:
    """(when, most that was held) of the line in at most `most` pieces of as many events: what a plot needs."""
    edges: Sequence[int] = np.unique(np.linspace(0, len(values), most + 1).astype(np.int64)).tolist()
    tops = [a + int(values[a:b].argmax()) for a, b in pairwise(edges)]
    return [(int(line.at_ns[i]), int(values[i])) for i in tops]


def _line(events: MemoryEvents, known: Bools, kind: int, device: int) -> Line | None:
    mine = known & (events.device_type == kind) & (events.device == device)
    told = mine & events.valid("total_allocated")
    basis: Basis = "totals" if told.any() else "lower_bound"
    rows = np.flatnonzero(told if basis == "totals" else mine & events.valid("bytes"))
    if not len(rows):
        return None
    rows = rows[np.argsort(events.at_ns[rows], kind="stable")]
    if basis == "totals":
        allocated = events.total_allocated[rows]
        all_reserved = bool(events.valid("total_reserved")[rows].all())
        reserved = events.total_reserved[rows] if all_reserved and kind != ON_CPU else None
    else:
        held = np.cumsum(events.bytes[rows])
        allocated, reserved = held - min(0, int(held.min())), None
    return Line(kind, device, basis, events.at_ns[rows], allocated, reserved)
