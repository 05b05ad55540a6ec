"""Lanes: events of one track that overlap without lying inside each other go side by side, so that none is lost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Final

import numpy as np

from rankscope.analyzers.intervals import Ints

NESTING: Final = 16  # lanes in which events may lie inside others; further ones are found in logarithmic time


def in_order(start: Ints, end: Ints) -> Ints:
    """Positions by begin, the longest first: what lies inside comes after what it lies in."""
    order: Ints = np.lexsort((-end, start))
    return order


def lanes(start: Ints, end: Ints, *, nested: bool) -> Ints:
    """The lane of each event, 0 where possible; events come `in_order`.

    In one lane events lie apart or, with `nested`, one inside the other. Cost: one pass in Python, also where all
    overlap.
    """
    nests: list[list[int]] = [[] for _ in range(NESTING)] if nested else []
    further = _Apart(len(nests))
    result = []
    for begin, finish in zip(start.tolist(), end.tolist(), strict=True):
        lane = _nest(nests, begin, finish)
        result.append(further.lane(begin, finish) if lane is None else lane)
    return np.array(result, np.int64)


def _nest(nests: Sequence[list[int]], begin: int, finish: int) -> int | None:
    """The first lane whose open events all reach to `finish`, or are over; each lane is the ends of its open events."""
    for lane, ends in enumerate(nests):
        while ends and ends[-1] <= begin:
            ends.pop()
        if not ends or ends[-1] >= finish:
            ends.append(finish)
            return lane
    return None


@dataclass(slots=True)
class _Apart:
    """Lanes from `next` on in which events lie apart: the lowest that is free is taken."""

    next: int
    busy: list[tuple[int, int]] = field(default_factory=list)  # (until, lane)
    free: list[int] = field(default_factory=list)

    def lane(self, begin: int, finish: int) -> int:
        while self.busy and self.busy[0][0] <= begin:
            heappush(self.free, heappop(self.busy)[1])
        if self.free:
            lane = heappop(self.free)
        else:
            lane, self.next = self.next, self.next + 1
        heappush(self.busy, (finish, lane))
        return lane
