"""Sequence alignment of one rank's collectives with another's, where the file gives them no sequence number.

Two captures begin and end at different moments, so the first (or any) collective of one may be missing in the other:
front order would pair each with its neighbour and invent a whole iteration of waiting. The pairing sought keeps the
order, leaves out as few as possible, and makes the ends agree: a collective ends on all ranks together, whenever they
came.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from rankscope.analyzers.intervals import Ints, Spans

EXTRA: Final = 2  # collectives that either side may lack beyond the difference in number
MAX_SKIPS: Final = 64  # a longer side with more than this to spare is not the same sequence
MAX_DRIFT: Final = 300e-6  # (ours) two clocks 100 ppm off each, and as much again: no more is taken for a drift
FEW: Final = 3  # (ours) fewer pairs tell no clock of their own
AMBIGUOUS: Final = 1.5  # (ours) below this many times the best spread, the second-best pairing is as likely


@dataclass(frozen=True, slots=True)
class Alignment:
    """Pairs (first[i], second[i]) of positions. `offset_ns`: second's clock minus first's, as the second's first record
    ends; `drift`: what it gains on the first's a nanosecond. `spread_ns`: mean |difference of ends|.

    `margin`: how many times larger the second-best pairing's spread is.
    """

    first: Ints
    second: Ints
    offset_ns: int
    drift: float
    spread_ns: float
    margin: float


def align(a: Spans, b: Spans, offset_ns: int | None) -> Alignment | None:
    """Pair two sequences of collectives (each by start).

    `offset_ns`: b's clock minus a's, None when unknown: then they may be any time apart, and drift. None: ambiguous.
    """
    if not a.size or not b.size or abs(a.size - b.size) > MAX_SKIPS:
        return None
    found = _candidates(a, b, None if offset_ns is None else (offset_ns, 0.0))
    if not found:
        return None
    if offset_ns is None:  # each pairing found a clock of its own: that of the best may serve a fuller one
        best = min(found, key=lambda c: _badness(c, a.size, b.size))
        found += _candidates(a, b, (best.offset_ns, best.drift))
    found.sort(key=lambda c: _badness(c, a.size, b.size))
    # Leaving out a pair that fits always lowers the spread: of the pairings that agree with the best, the fullest
    # counts.
    best = max((c for c in found if _agree(c, found[0])), key=lambda c: len(c.first))
    others = [_badness(c, a.size, b.size) for c in found if not _agree(c, best)]
    margin = min(others, default=float("inf")) / _badness(best, a.size, b.size)
    front = a.size == b.size and len(best.first) == a.size
    if margin < AMBIGUOUS and not front:
        straight = [c for c in found if a.size == b.size and len(c.first) == a.size]
        if not straight:
            return None
        best = straight[0]
    return replace(best, margin=margin)


def _candidates(a: Spans, b: Spans, clock: tuple[int, float] | None) -> list[Alignment]:
    found = []
    for lead in _leads(a.size, b.size):
        first, second = np.arange(max(lead, 0), a.size), np.arange(max(-lead, 0), b.size)
        short = min(len(first), len(second))
        if 2 * short >= min(a.size, b.size):
            guesses = [clock] if clock else list(_guesses(a.end[first[:short]], b.end[second[:short]], b))
            found += [_candidate(a, b, first, second, guess, fixed=clock is not None) for guess in guesses]
    return [candidate for candidate in found if candidate is not None]


def _guesses(a: Ints, b: Ints, whole: Spans) -> Iterator[tuple[int, float]]:
    """b's clock, were all these pairs of ends the same; or only the first or the last third, before or after a gap."""
    yield _clock(a, b, whole)
    if (third := len(a) // 3) >= FEW:
        yield _clock(a[:third], b[:third], whole)
        yield _clock(a[-third:], b[-third:], whole)


def _leads(n: int, m: int) -> list[int]:
    """How many collectives of `a` may precede the first of `b` (negative: of `b` before `a`)."""
    low, high = min(0, n - m) - EXTRA, max(0, n - m) + EXTRA
    return [lead for lead in range(low, high + 1) if min(n - max(lead, 0), m - max(-lead, 0)) >= 1]


def _candidate(
    a: Spans, b: Spans, first: Ints, second: Ints, clock: tuple[int, float], *, fixed: bool
) -> Alignment | None:
    """The best pairing that begins with first[0] or second[0]. `clock`: b's offset and drift, a guess unless `fixed`."""
    offset, drift = clock
    moved = _moved(b, offset, drift)
    if len(first) > len(second):
        first = first[_skip(a.end[first], moved.end[second])]
    elif len(second) > len(first):
        second = second[_skip(moved.end[second], a.end[first])]
    if not fixed:
        offset, drift = _clock(a.end[first], b.end[second], b)
        moved = _moved(b, offset, drift)
    together = (moved.end[second] >= a.start[first]) & (a.end[first] >= moved.start[second])
    if not together.any() or (not fixed and 2 * int(together.sum()) < len(together)):
        return None  # any few pairs agree on some offset
    residual = (moved.end[second] - a.end[first])[together]
    spread = float(np.abs(residual).mean()) * len(first) / len(residual)
    return Alignment(first[together], second[together], offset, drift, spread, 0.0)


def _clock(a: Ints, b: Ints, whole: Spans) -> tuple[int, float]:
    """Offset and drift of b's clock, were these pairs of ends the same: medians of the first and the last third."""
    difference, at = b - a, b - whole.end[0]
    third = len(a) // 3
    drift = 0.0
    if third:
        gained = np.median(difference[-third:]) - np.median(difference[:third])
        time = np.median(at[-third:]) - np.median(at[:third])
        drift = float(np.clip(gained / max(time, 1), -MAX_DRIFT, MAX_DRIFT))
    return round(float(np.median(difference - np.rint(drift * at).astype(np.int64)))), drift


def _moved(b: Spans, offset: int, drift: float) -> Spans:
    """b by a's clock."""
    if not drift:
        return Spans(b.start - offset, b.end - offset)
    start, end = (t - offset - np.rint(drift * (t - b.end[0])).astype(np.int64) for t in (b.start, b.end))
    return Spans(start, end)


def _skip(long: Ints, short: Ints) -> Ints:
    """Positions in `long` to pair with `short`, in order, that minimise the sum of |differences|.

    O(len(short) * spare), vectorised.
    """
    spare = len(long) - len(short)
    cost = np.zeros(spare + 1)
    came = np.empty((len(short), spare + 1), np.int64)
    states = np.arange(spare + 1)
    for i, end in enumerate(short):
        # The best cost of arriving with at most s skipped so far, and with how many it was reached.
        best = np.minimum.accumulate(cost)
        came[i] = np.maximum.accumulate(np.where(cost == best, states, 0))
        cost = best + np.abs(long[i : i + spare + 1] - end)
    skipped = np.empty(len(short), np.int64)
    state = int(np.argmin(cost))
    for i in range(len(short) - 1, -1, -1):
        skipped[i] = state
        state = int(came[i, state])
    return np.arange(len(short)) + skipped


def _badness(candidate: Alignment, n: int, m: int) -> float:
    """Spread, worse for each collective left out that could have been paired."""
    return (candidate.spread_ns + 1) * min(n, m) / len(candidate.first)


def _agree(a: Alignment, b: Alignment) -> bool:
    """No collective is paired differently: one pairing leaves out what the other has."""
    pairs, others = (
        dict(zip(a.first.tolist(), a.second.tolist(), strict=True)),
        zip(b.first.tolist(), b.second.tolist(), strict=True),
    )
    return all(pairs.get(first, second) == second for first, second in others) and not (
        set(a.second.tolist()) - set(b.second.tolist()) and set(b.second.tolist()) - set(a.second.tolist())
    )
