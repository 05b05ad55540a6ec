"""The line laid through the ends that hosts have in common: offsets and drifts of all hosts at once.

Each end is its collective's common end, plus the offset and the drift of its host's clock, plus jitter. Huber's weights
hold outliers down. How far clocks drift is known beforehand (a prior), so that a run too short to tell the drift keeps it
near 0, and the covariance says what that may cost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from rankscope.analyzers.intervals import Bools, Ints

Floats = npt.NDArray[np.float64]

DRIFT_NS_PER_S: Final = 100_000.0  # standard deviation of drifts beforehand: quartz keeps 100 ppm (hosts without NTP)
HUBER: Final = 1.5  # standard deviations from which an end counts less (Huber 1964: 96 % efficient on normal jitter)
LEAST_NS: Final = 0.5  # times are whole nanoseconds
ROUNDS: Final = 60
SOLVABLE: Final = 1e-12  # of what pings tell of each unknown: where those of two hosts are weeks apart, float64 ends


@dataclass(frozen=True, slots=True)
class Ends:
    """Ends of collectives that join hosts. `common`: position of the common end; `members`: of the set of ranks."""

    common: Ints
    members: Ints
    host: Ints
    own: Ints
    hosts: int

    def part(self, rows: Bools) -> Ends:
        """These rows, their common ends counted anew."""
        _, common = np.unique(self.common[rows], return_inverse=True)
        return Ends(common, self.members[rows], self.host[rows], self.own[rows], self.hosts)


@dataclass(frozen=True, slots=True)
class PingRows:
    """What pings of one host measured: at `own`, by its clock, `ahead` of the hub's, ns; `deviation`: standard, ns."""

    host: int
    hub: int
    own: Ints
    ahead: Ints
    deviation: Floats


@dataclass(frozen=True, slots=True)
class EndFit:
    """Per host: offset beyond the rough one (ns), drift (ns a second) and from when it counts; their covariance."""

    offset: Floats
    drift: Floats
    origin: Ints
    covariance: Floats  # [offsets then drifts]
    freedom: float
    deviation: Floats  # of each end from its collective's common end, as if that were known
    met: Ints  # when each collective ended by each host's clock, jitter apart


def solve(flat: Ends, rough: Ints, free: Bools, pings: Sequence[PingRows] = ()) -> EndFit:
    """Iteratively reweighted least squares, each collective's common end eliminated.

    `rough[host]`: offsets to begin with, ns; `free`: hosts to fit, the others being references. Cost of a round: linear
    in ends, and common ends x hosts squared.
    """
    y, origin = _beyond(flat, rough), _origins(flat, pings)
    prior, toward = _known(pings, rough, origin)
    columns = np.flatnonzero(np.concatenate((free, free)))
    shrunk = _shrunk(flat, len(columns))
    unknown = np.zeros(2 * flat.hosts)
    left, weight, scale = y, np.ones(len(y)), LEAST_NS
    for _ in range(ROUNDS):
        # By the fitted end, not by its own: an outlier's time must not move the line's far end.
        x = (flat.own - np.rint(left).astype(np.int64) - origin[flat.host]) / 1e9
        standard = np.abs(left) / np.sqrt(1 - _leverage(flat, weight))
        scale = max(LEAST_NS, 1.4826 * shrunk * float(np.median(standard))) if len(y) else LEAST_NS
        weight = np.minimum(1.0, HUBER * scale / np.maximum(standard, LEAST_NS))
        normal, right = _normal(flat, x, y, weight)
        before, unknown = unknown, np.zeros(2 * flat.hosts)
        whole, right = normal + scale**2 * prior, right + scale**2 * toward
        unknown[columns] = np.linalg.solve(whole[np.ix_(columns, columns)], right[columns])
        left = y - unknown[flat.host] - unknown[flat.hosts + flat.host] * x
        left = left - (_per_common(flat, weight * left) / _per_common(flat, weight))[flat.common]
        if np.abs(unknown - before).max(initial=0.0) < LEAST_NS / 10:
            break
    covariance, freedom = _covariance(flat, x, left, scale, columns, prior)
    deviation = shrunk * left / np.sqrt(1 - _leverage(flat, np.ones(len(y))))
    met = flat.own - np.rint(left).astype(np.int64)
    return EndFit(unknown[: flat.hosts], unknown[flat.hosts :], origin, covariance, freedom, deviation, met)


def _beyond(flat: Ends, rough: Ints) -> Floats:
    """What the rough offsets leave of each end, from its collective's median: exact, then small enough to float."""
    shifted = flat.own - rough[flat.host]
    order = np.lexsort((shifted, flat.common))
    count = np.bincount(flat.common)
    first = np.cumsum(count) - count
    low, high = shifted[order][first + (count - 1) // 2], shifted[order][first + count // 2]
    return np.asarray(shifted - (low + (high - low) // 2)[flat.common], np.float64)


def _per_common(flat: Ends, values: Floats) -> Floats:
    return np.asarray(np.bincount(flat.common, values), np.float64)


def _leverage(flat: Ends, weight: Floats) -> Floats:
    """How much of its collective's common end each end is itself."""
    share: Floats = weight / _per_common(flat, weight)[flat.common]
    return np.minimum(share, 1 - 1e-9)


def _shrunk(flat: Ends, unknowns: int) -> float:
    """By how much few ends look better than they are, because the line was laid through them."""
    free = len(flat.own) - (int(flat.common.max(initial=-1)) + 1)
    return float(np.sqrt(free / max(1, free - unknowns)))


def _normal(flat: Ends, x: Floats, y: Floats, weight: Floats) -> tuple[Floats, Floats]:
    """The normal equations of offsets, then drifts."""
    shape = int(flat.common.max(initial=-1)) + 1, flat.hosts
    cell = flat.common * flat.hosts + flat.host
    z = np.hstack([np.bincount(cell, w, shape[0] * shape[1]).reshape(shape) for w in (weight, weight * x)])
    scaled = z / z[:, : flat.hosts].sum(axis=1)[:, None]
    sums = [np.bincount(flat.host, weight * part, flat.hosts) for part in (np.ones(len(x)), x, x * x, y, x * y)]
    own = np.block([[np.diag(sums[0]), np.diag(sums[1])], [np.diag(sums[1]), np.diag(sums[2])]])
    right = np.concatenate((sums[3], sums[4])) - scaled.T @ np.bincount(flat.common, weight * y, shape[0])
    return own - scaled.T @ z, right


def _known(pings: Sequence[PingRows], rough: Ints, origin: Ints) -> tuple[Floats, Floats]:
    """What is known beside the ends, as normal equations in 1/ns²: how far clocks drift, and what pings measured."""
    n = len(rough)
    normal, right = np.diag(np.repeat([0.0, DRIFT_NS_PER_S**-2], n)), np.zeros(2 * n)
    for p in pings:
        at = np.array([p.host, p.hub, n + p.host, n + p.hub])
        x = (p.own - origin[p.host]) / 1e9
        hub_x = (p.own - p.ahead - origin[p.hub]) / 1e9
        row = np.stack((np.ones(len(x)), -np.ones(len(x)), x, -hub_x), axis=1) / p.deviation[:, None]
        beyond = (p.ahead - (int(rough[p.host]) - int(rough[p.hub]))).astype(np.float64) / p.deviation
        told = row.T @ row
        normal[np.ix_(at, at)] += told + SOLVABLE * np.diag(np.diag(told))
        right[at] += row.T @ beyond
    return normal, right


def _covariance(
    flat: Ends, x: Floats, left: Floats, scale: float, columns: Ints, prior: Floats
) -> tuple[Floats, float]:
    """Covariance of offsets and drifts, in ns and ns a second, and the degrees of freedom it rests on."""
    found = np.zeros((2 * flat.hosts, 2 * flat.hosts))
    if not len(columns):
        return found, 1.0
    among = np.ix_(columns, columns)
    if not len(left):  # what is known of pings is no estimate
        found[among] = np.linalg.inv(prior[among])
        return found, np.inf
    every = np.ones(len(left))
    normal, _ = _normal(flat, x, left, every)
    inverse = scale**2 * np.linalg.inv((normal + scale**2 * prior)[among])
    kept_by_prior = float(np.sum(inverse * prior[among]))
    inside = np.abs(left) <= HUBER * scale
    bounded = np.clip(left, -HUBER * scale, HUBER * scale)
    differences = (len(left) - int(flat.common.max()) - 1) / _together(flat, bounded)
    freedom = max(1.0, differences - len(columns) + kept_by_prior)
    spread = np.sqrt(float(np.sum(bounded**2)) / freedom) / max(float(inside.mean()), 0.1)
    found[among] = spread**2 * np.linalg.inv((normal + max(spread, LEAST_NS) ** 2 * prior)[among])
    return found, freedom


def _together(flat: Ends, left: Floats) -> float:
    """How many times less the ends tell than if ranks of one host jittered apart from each other (design effect)."""
    members = np.bincount(flat.common)
    cell, ranks = np.unique(flat.common * flat.hosts + flat.host, return_counts=True)
    sums = np.bincount(np.searchsorted(cell, flat.common * flat.hosts + flat.host), left)
    variance = float(np.sum(left**2)) / float(np.sum(1 - 1 / members[flat.common]))
    apart = float(np.sum(ranks * (1 - ranks / members[cell // flat.hosts]))) * variance
    return max(1.0, float(np.sum(sums**2)) / apart) if apart else 1.0


def _origins(flat: Ends, pings: Sequence[PingRows]) -> Ints:
    """The median of each host's ends, or of its pings, by its own clock: there offset and drift are told apart best."""
    order = np.lexsort((flat.own, flat.host))
    origin = np.zeros(flat.hosts, np.int64)
    for p in pings:
        origin[[p.host, p.hub]] = [np.sort(t)[(len(t) - 1) // 2] for t in (p.own, p.own - p.ahead)]
    for host, ends in runs(flat.host[order]):
        origin[host] = flat.own[order[(ends.start + ends.stop - 1) // 2]]
    return origin


def runs(values: Ints) -> Iterator[tuple[int, slice]]:
    """Sorted values: each once, and where it is."""
    distinct, first, count = np.unique(values, return_index=True, return_counts=True)
    for value, begin, n in zip(distinct.tolist(), first.tolist(), count.tolist(), strict=True):
        yield value, slice(begin, begin + n)
