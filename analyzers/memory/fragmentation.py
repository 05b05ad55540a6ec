"""Fragmentation: what the allocator holds of the device and no tensor uses, when it holds most."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankscope.analyzers.memory.timeline import Line


@dataclass(frozen=True, slots=True)
class Fragmentation:
    """(reserved - allocated) / reserved at the peak of reserved; of equal peaks where most is allocated."""

    share: float
    reserved_bytes: int
    allocated_bytes: int
    at_ns: int


def fragmentation(line: Line) -> Fragmentation | None:
    """None where the events do not say what was reserved, or nothing was.

    The peak of reserved lasts; the moment of most allocated in it is the kindest: what is waste then is waste always.
    """
    if line.reserved_bytes is None or line.reserved_bytes.max() <= 0:
        return None
    top = int(line.reserved_bytes.max())
    there = np.flatnonzero(line.reserved_bytes == top)
    at = int(there[line.allocated_bytes[there].argmax()])
    allocated = int(line.allocated_bytes[at])
    return Fragmentation(max(0.0, (top - allocated) / top), top, allocated, int(line.at_ns[at]))
