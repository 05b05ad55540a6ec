"""Collectives of hosts whose clocks are apart and drift, without the training around them: when each rank came and left.

Ranks leave a collective together but for jitter. Times of the truth are nanoseconds of common time after `BASE_NS`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Topology = Literal["world", "replicas", "overlapping", "chain", "islands", "too_few"]
Shape = Literal["uniform", "normal", "late", "outliers"]

BASE_NS = 1_767_225_600_000_000_000
SECOND = 1_000_000_000
LEAST_GAP_NS = 1_000_000  # between two ends of one group: no rank comes earlier than that
TOO_FEW = 2  # collectives that join the islands of `too_few`


@dataclass(frozen=True, slots=True)
class Meetings:
    """What is simulated. Offsets of hosts lie within 10 s and drifts within 100 ppm of common time.

    `topology`: all ranks in each collective; groups of one rank a host; a ring of
    groups of four hosts of which each shares two with the next; groups of two neighbours; sets of hosts that share
    nothing; the same joined by fewer ends than tell anything. `shape` of the jitter, whose 95th
    percentile is about `jitter_ns`: uniform, normal, exponentially late, or uniform with one end in a hundred late by
    up to 100 times as much.
    """

    seed: int
    hosts: int = 2
    ranks_per_host: int = 1
    collectives: int = 100  # of each group
    span_ns: int = 10 * SECOND
    jitter_ns: int = 20_000
    topology: Topology = "world"
    shape: Shape = "uniform"
    lost: int = 0  # up to so many collectives lie before the begin or after the end of a rank's capture

    @property
    def ranks(self) -> int:
        """Of all hosts."""
        return self.hosts * self.ranks_per_host


@dataclass(frozen=True, slots=True)
class RankEnds:
    """What one rank's file holds, by its own clock: groups (global ranks), then one row a collective, by end."""

    host: str
    groups: tuple[tuple[int, ...], ...]
    group: Ints
    seq: Ints
    start_ns: Ints
    end_ns: Ints


@dataclass(frozen=True, slots=True)
class Met:
    """The ranks' files and the truth. `island[host]`: hosts of one island can be compared; `begin_ns[host]` and
    `end_ns[host]`: first arrival and last end of its ranks in common time, 0 without any.
    """

    ranks: tuple[RankEnds, ...]
    offset_ns: Ints
    drift_ppb: Ints
    island: Ints
    begin_ns: Ints
    end_ns: Ints
    jitter_p95_ns: float

    def own_ns(self, host: int, common_ns: Ints) -> Ints:
        """Common time by this host's clock."""
        own: Ints = BASE_NS + self.offset_ns[host] + common_ns + common_ns * self.drift_ppb[host] // 10**9
        return own


def meet(scenario: Meetings) -> Met:
    """Let the ranks meet. The same scenario gives the same times."""
    rng, per_host = np.random.default_rng((scenario.seed, 3)), scenario.ranks_per_host
    offset = rng.integers(-10 * SECOND, 10 * SECOND + 1, scenario.hosts)
    drift = rng.integers(-100_000, 100_001, scenario.hosts)
    island = _islands(scenario, rng)
    rows: list[list[tuple[int, int, int, int]]] = [[] for _ in range(scenario.ranks)]  # end, start, group, seq
    groups: list[list[tuple[int, ...]]] = [[] for _ in range(scenario.ranks)]
    planted = []
    for members, count in _groups(scenario, island):
        ends = _ends(scenario, rng, count)
        came = ends[:, None] - rng.integers(100_000, 900_000, (count, len(members)))
        jitter = _jitter(scenario, rng, (count, len(members)))
        planted.append(np.abs(jitter).ravel())
        for column, rank in enumerate(members):
            groups[rank].append(members)
            left = ends + jitter[:, column]
            first, last = rng.integers(0, scenario.lost + 1, 2) if count > 4 * scenario.lost else (0, 0)
            for i in range(first, count - last):
                rows[rank].append((int(left[i]), int(came[i, column]), len(groups[rank]) - 1, i + 1))
    of_host = [[row for own in rows[h * per_host : (h + 1) * per_host] for row in own] for h in range(scenario.hosts)]
    begin = np.array([min((row[1] for row in own), default=0) for own in of_host])
    end = np.array([max((row[0] for row in own), default=0) for own in of_host])
    p95 = float(np.quantile(np.concatenate(planted), 0.95)) if planted else 0.0
    met = Met((), offset, drift, island, begin, end, p95)
    return replace(
        met, ranks=tuple(_by_own_clock(met, r // per_host, groups[r], rows[r]) for r in range(scenario.ranks))
    )


def _islands(scenario: Meetings, rng: np.random.Generator) -> Ints:
    if scenario.topology not in ("islands", "too_few"):
        return np.zeros(scenario.hosts, np.int64)
    count = int(rng.integers(2, min(4, scenario.hosts) + 1))
    island = np.concatenate((np.arange(count), rng.integers(0, count, scenario.hosts - count)))
    return rng.permutation(island)


def _ends(scenario: Meetings, rng: np.random.Generator, count: int) -> Ints:
    """One after the other, at irregular times over the whole span."""
    gaps = LEAST_GAP_NS + rng.exponential(max(scenario.span_ns / count - LEAST_GAP_NS, LEAST_GAP_NS), count)
    return np.cumsum(np.rint(gaps).astype(np.int64))


def _groups(scenario: Meetings, island: Ints) -> list[tuple[tuple[int, ...], int]]:
    """Groups and how many collectives each has."""
    per_host, n = scenario.ranks_per_host, scenario.collectives

    def of(*hosts: int) -> tuple[int, ...]:
        return tuple(host * per_host + place for host in sorted(hosts) for place in range(per_host))

    everyone = range(scenario.hosts)
    if scenario.topology == "replicas":
        replicas = [tuple(host * per_host + place for host in everyone) for place in range(per_host)]
        return [(group, n) for group in replicas] + ([(of(host), n) for host in everyone] if per_host > 1 else [])
    if scenario.topology == "overlapping":
        rings = {
            tuple(sorted({(first + i) % scenario.hosts for i in range(4)})) for first in everyone if first % 2 == 0
        }
        return [(of(*ring), n) for ring in sorted(rings)]
    if scenario.topology == "chain":
        return [(of(host, host + 1), n) for host in range(scenario.hosts - 1)]
    if scenario.topology == "world":
        return [(of(*everyone), n)]
    found = [(of(*np.flatnonzero(island == i).tolist()), n) for i in range(int(island.max()) + 1)]
    found = [(group, count) for group, count in found if len(group) > 1]
    return found + ([(of(*everyone), TOO_FEW)] if scenario.topology == "too_few" else [])


def _jitter(scenario: Meetings, rng: np.random.Generator, shape: tuple[int, int]) -> Ints:
    size = scenario.jitter_ns
    if scenario.shape == "normal":
        found = rng.normal(0, size / 1.96, shape)
    elif scenario.shape == "late":
        found = rng.exponential(size / 3, shape)
    else:
        found = rng.uniform(-size, size, shape)
    if scenario.shape == "outliers":
        found += np.where(rng.random(shape) < 0.01, rng.uniform(0, 100 * size, shape), 0)
    return np.rint(found).astype(np.int64)


def _by_own_clock(
    met: Met, host: int, groups: list[tuple[int, ...]], rows: list[tuple[int, int, int, int]]
) -> RankEnds:
    table = np.array(sorted(rows), np.int64).reshape(-1, 4)
    end, start = met.own_ns(host, table[:, 0]), met.own_ns(host, table[:, 1])
    return RankEnds(f"node{host}", tuple(groups), table[:, 2], table[:, 3], np.minimum(start, end), end)
