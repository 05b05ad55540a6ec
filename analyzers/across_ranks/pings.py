"""What pings tell of clocks: for each host a line of how far it is ahead, known as well as half a round trip.

The way there and the way back may differ, the same in every round: the line is therefore known no better than one round,
however many there are. That holds its offset; its drift is told by how far the rounds are apart in time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from rankscope.analyzers.across_ranks.common_ends import DRIFT_NS_PER_S, Floats, PingRows
from rankscope.analyzers.intervals import Ints

BESIDE: Final = 16  # rounds kept before and behind the time that is compared: lines are straight for so long only
MOST_ROUNDS: Final = 1_000  # of one host
LEAST_NS: Final = 1_000.0  # clocks are read in steps of up to a microsecond
NORMAL_95: Final = 1.96
OUTSIDE: Final = 3.0  # (ours) times what rounds usually miss the line by: no round of this clock
TIMES_APART: Final = 4  # (ours) times the distance of the quartiles; evenly spaced rounds reach one
SLACK_NS: Final = 3600 * 10**9
REACH_NS: Final = 30 * 86_400 * 10**9  # (ours) no line is drawn so far; traces so far off are by another clock
ITERATIONS: Final = 60


@dataclass(frozen=True, slots=True)
class Pings:
    """One rank's rounds with the hub. `own`: when, by its own clock; `ahead`: its clock over the hub's, ns, to within
    `half`, half the round trip."""

    lane: int
    own: Ints
    ahead: Ints
    half: Ints


@dataclass(frozen=True, slots=True)
class HubPings:
    """All rounds of a run. `hub`: a lane on the host that answers; None: no rank there is looked at."""

    hub: int | None
    asked: Sequence[Pings]


@dataclass(frozen=True, slots=True)
class PingLine:
    """own - hub's = ahead_ns + offset + drift x (own - origin_ns): nanoseconds, and nanoseconds a second."""

    origin_ns: int
    ahead_ns: int
    offset: float
    drift: float
    covariance: Floats
    rows: PingRows

    def at(self, own: int) -> int:
        """How far it is ahead at this time of its own."""
        return self.ahead_ns + round(self.offset + self.drift * ((own - self.origin_ns) / 1e9))

    def off_by(self, own: int) -> float:
        """The 95 % interval of that, ns."""
        moment = np.array([1.0, (own - self.origin_ns) / 1e9])
        return NORMAL_95 * float(np.sqrt(max(0.0, moment @ self.covariance @ moment)))


def ping_line(host: int, hub: int, pings: Sequence[Pings], begin: int, end: int) -> PingLine:
    """The line through one host's rounds about the time from `begin` to `end` of its own (begin > end: all), by Huber's
    weights: rounds that contradict the others hardly count, and a line that rounds miss is known less well.
    """
    own, ahead, half = (np.concatenate(part) for part in zip(*((p.own, p.ahead, p.half) for p in pings), strict=True))
    near = _near(own, begin, end)
    own, ahead, half = own[near], ahead[near], np.maximum(half[near].astype(np.float64), LEAST_NS)
    origin, base = int(np.sort(own)[(len(own) - 1) // 2]), int(np.sort(ahead)[(len(own) - 1) // 2])
    x, y = (own - origin) / 1e9, (ahead - base).astype(np.float64)
    design = np.stack((np.ones(len(x)), x), axis=1)
    found, left = np.zeros(2), y
    for _ in range(ITERATIONS):
        weight = np.minimum(1.0, half / np.maximum(np.abs(left), LEAST_NS / 10)) / (half**2 * len(x))
        before, found = found, np.linalg.lstsq(_rows(design, weight), np.append(np.sqrt(weight) * y, 0.0), None)[0]
        left = y - design @ found
        if np.abs(found - before).max() < 0.1:
            break
    missed = np.abs(left) / half
    worse = max(1.0, float(np.sort(missed)[round(0.95 * (len(missed) - 1))]))
    kept = missed <= OUTSIDE * worse
    deviation = worse * half[kept] * float(np.sqrt(kept.sum())) / NORMAL_95
    half_covariance = np.asarray(np.linalg.pinv(_rows(design[kept], 1 / deviation**2)), np.float64)
    rows = PingRows(host, hub, own[kept], ahead[kept], deviation)
    return PingLine(origin, base, float(found[0]), float(found[1]), half_covariance @ half_covariance.T, rows)


def _rows(design: Floats, weight: Floats) -> Floats:
    """Weighted, and what is known of drifts."""
    return np.vstack((np.sqrt(weight)[:, None] * design, [[0.0, 1 / DRIFT_NS_PER_S]]))


def _near(own: Ints, begin: int, end: int) -> Ints:
    """Positions of rounds in and beside this time, ascending; times far from all others lie."""
    order = np.argsort(own, kind="stable")
    if begin <= end:
        first = int(np.searchsorted(own[order], begin)) - BESIDE
        last = int(np.searchsorted(own[order], end, "right")) + BESIDE
        order = order[max(0, min(first, len(order) - 2 * BESIDE)) : max(last, 2 * BESIDE)]
    low, middle, high = (int(own[order[int(share * (len(order) - 1))]]) for share in (0.25, 0.5, 0.75))
    order = order[np.abs(own[order] - middle) <= min(TIMES_APART * (high - low) + SLACK_NS, REACH_NS)]
    if len(order) > MOST_ROUNDS:
        order = order[np.linspace(0, len(order) - 1, MOST_ROUNDS).astype(np.int64)]
    return order
