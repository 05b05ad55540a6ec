"""Sets of nanoseconds as sorted, disjoint, half-open intervals. Where correctness lives.

Every function is vectorised: O(n log n) in the number of intervals, no Python loop.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

FIRST = np.iinfo(np.int64).min // 4  # before every time; a quarter of the range so that differences cannot overflow
LAST = np.iinfo(np.int64).max // 4  # after every time


class Spans(NamedTuple):
    """Intervals [start, end) in nanoseconds. As a set: sorted and disjoint; `union` makes it so."""

    start: Ints
    end: Ints

    @property
    def size(self) -> int:
        """How many intervals."""
        return len(self.start)


EMPTY = Spans(np.empty(0, np.int64), np.empty(0, np.int64))


def spans(*pairs: tuple[int, int]) -> Spans:
    """Spans from (start, end) pairs, as they come."""
    array = np.array(pairs, np.int64).reshape(-1, 2)
    return Spans(array[:, 0].copy(), array[:, 1].copy())


def union(*sets: Spans) -> Spans:
    """Merge intervals in any order, overlapping or touching, into a set; empty ones vanish."""
    start = np.concatenate([s.start for s in sets]) if len(sets) != 1 else sets[0].start
    end = np.concatenate([s.end for s in sets]) if len(sets) != 1 else sets[0].end
    real = end > start
    if not real.all():
        start, end = start[real], end[real]
    if not len(start):
        return EMPTY
    if (np.diff(start) < 0).any():
        order = np.argsort(start, kind="stable")
        start, end = start[order], end[order]
    reach = np.maximum.accumulate(end)
    opens = np.flatnonzero(np.concatenate(([True], start[1:] > reach[:-1])))
    closes = np.concatenate((opens[1:], [len(start)])) - 1
    return Spans(start[opens], reach[closes])


def intersect(a: Spans, b: Spans) -> Spans:
    """The nanoseconds in both sets."""
    if not a.size or not b.size:
        return EMPTY
    first = np.searchsorted(b.end, a.start, "right")
    count = np.maximum(np.searchsorted(b.start, a.end, "left") - first, 0)
    mine = np.repeat(np.arange(a.size), count)
    theirs = np.arange(len(mine)) - np.repeat(np.cumsum(count) - count, count) + np.repeat(first, count)
    return Spans(np.maximum(a.start[mine], b.start[theirs]), np.minimum(a.end[mine], b.end[theirs]))


def complement(a: Spans) -> Spans:
    """The nanoseconds in no interval of `a`, from FIRST to LAST."""
    start = np.concatenate(([FIRST], a.end))
    end = np.concatenate((a.start, [LAST]))
    real = end > start
    return Spans(start[real], end[real])


def subtract(a: Spans, b: Spans) -> Spans:
    """The nanoseconds of `a` that are not in `b`."""
    return intersect(a, complement(b)) if a.size and b.size else a


def clip(a: Spans, start: int, end: int) -> Spans:
    """The nanoseconds of `a` in [start, end)."""
    return intersect(a, spans((start, end))) if end > start else EMPTY


def total(a: Spans) -> int:
    """How many nanoseconds the set holds."""
    return int((a.end - a.start).sum())


def until(a: Spans, times: Ints) -> Ints:
    """How many nanoseconds of the set lie before each of `times`."""
    if not a.size:
        return np.zeros(len(times), np.int64)
    before = np.concatenate(([0], np.cumsum(a.end - a.start)))
    at = np.searchsorted(a.start, times, "right") - 1
    inside = np.clip(times - a.start[np.maximum(at, 0)], 0, (a.end - a.start)[np.maximum(at, 0)])
    return np.where(at < 0, 0, before[np.maximum(at, 0)] + inside)


def within(a: Spans, bounds: Ints) -> Ints:
    """How many nanoseconds of the set lie between each two neighbours of `bounds` (ascending): one value fewer."""
    return np.diff(until(a, bounds))


def contains(a: Spans, times: Ints) -> Bools:
    """Which of `times` lie in the set (start <= t < end)."""
    if not a.size:
        return np.zeros(len(times), np.bool_)
    at = np.searchsorted(a.start, times, "right") - 1
    return (at >= 0) & (times < a.end[np.maximum(at, 0)])


def latest_ending(start: Ints, end: Ints) -> Ints:
    """Share out nanoseconds that several intervals claim: each goes to the one that ends last (ties: the later
    position).

    Returns the end of what each interval keeps, so that [start, kept) are disjoint and their union is the union.
    """
    order = np.lexsort((-np.arange(len(end)), -end))
    earliest = np.minimum.accumulate(np.concatenate(([LAST], start[order])))[:-1]
    kept = np.empty(len(end), np.int64)
    kept[order] = np.maximum(np.minimum(end[order], earliest), start[order])
    return kept
