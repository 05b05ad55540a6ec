"""One clock for the run: per host an offset (and drift), fitted on the ends of symmetric collectives
(docs/accounting.md, section 6).

A symmetric collective (all-reduce, all-gather, reduce-scatter, all-to-all) ends on all its ranks together, whatever
their clocks say.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from rankscope.analyzers.intervals import Ints

SYMMETRIC: Final = frozenset({"all_reduce", "all_gather", "reduce_scatter", "all_to_all"})
MIN_ENDS: Final = 3  # (ours) with fewer common ends the residual cannot be judged
JITTER_NS: Final = (
    50_000  # (ours) hosts unknown: ends that agree so well, or within 3 x their own spread, are on one clock
)
DRIFT_SPAN_NS: Final = 500_000_000  # (ours) shorter runs cannot tell drift from jitter: 20 us over 0.5 s is 40 ppm
DRIFT_ENDS: Final = 10


@dataclass(frozen=True, slots=True)
class HostClock:
    """One host's clock against its component's reference: common = own - offset - drift x (own - origin).

    Nanoseconds.
    """

    component: int
    offset_ns: int
    drift: float  # nanoseconds a nanosecond
    origin_ns: int
    residual_ns: int
    fitted: bool  # from ends; False for a reference


@dataclass(frozen=True, slots=True)
class Clocks:
    """Clocks of a run by lane (position of the rank)."""

    host_of: tuple[int, ...]  # lane -> host
    hosts: tuple[HostClock, ...]
    method: tuple[str, ...]  # lane -> method

    def common(self, lane: Ints, times: Ints) -> Ints:
        """Own times to common times, within each component."""
        hosts = np.array(self.host_of, np.int64)[lane]
        offset = np.array([h.offset_ns for h in self.hosts], np.int64)[hosts]
        drift = np.array([h.drift for h in self.hosts])[hosts]
        origin = np.array([h.origin_ns for h in self.hosts], np.int64)[hosts]
        gained = np.rint(drift * (times - origin)).astype(np.int64) if drift.any() else np.zeros_like(times)
        common: Ints = times - offset - gained
        return common

    def component(self, lane: int) -> int:
        """Lanes of one component have one clock."""
        return self.hosts[self.host_of[lane]].component

    def residual_ns(self, lanes: Iterable[int]) -> int:
        """What the clock cannot tell among these lanes: 0 on one host, else the worst of the hosts involved."""
        hosts = {self.host_of[lane] for lane in lanes}
        return 0 if len(hosts) < 2 else max(self.hosts[h].residual_ns for h in hosts)


@dataclass(frozen=True, slots=True)
class End:
    """One symmetric collective's ends: lanes and own end times."""

    lanes: Ints
    ends: Ints


def fit_clocks(lane_hosts: Sequence[str | None], ends: Sequence[End]) -> Clocks:
    """Fit every host's clock.

    `lane_hosts[i]`: host (with base) of lane i, None unknown: then the rank is its own host at first.
    """
    labels = [host if host is not None else f"\0lane {i}" for i, host in enumerate(lane_hosts)]
    order = list(dict.fromkeys(labels))
    host_of = [order.index(label) for label in labels]
    edges = _edges(host_of, ends)
    clocks = _spread(len(order), edges)
    merged = _merge_unknown(lane_hosts, host_of, clocks)
    methods = tuple(_method(lane, host_of, clocks, merged) for lane in range(len(labels)))
    return Clocks(tuple(host_of), tuple(clocks), methods)


def _edges(host_of: Sequence[int], ends: Sequence[End]) -> dict[tuple[int, int], list[tuple[int, int]]]:
    """(host, host) -> list of (own end on the first, end on the second), one for each common collective."""
    edges: dict[tuple[int, int], list[tuple[int, int]]] = {}
    hosts = np.array(host_of, np.int64)
    for end in ends:
        at = hosts[end.lanes]
        if (at == at[0]).all():
            continue
        seen = {int(h): _middle(end.ends[at == h]) for h in np.unique(at)}
        first = min(seen)
        for a in seen:
            # All pairs would be quadratic in hosts; the lowest host of each collective is enough to connect them.
            if a != first:
                edges.setdefault((first, a), []).append((seen[first], seen[a]))
    return edges


def _middle(times: Ints) -> int:
    """The lower median: absolute nanoseconds fit no float64."""
    return int(np.sort(times)[(len(times) - 1) // 2])


def _spread(n: int, edges: dict[tuple[int, int], list[tuple[int, int]]]) -> list[HostClock]:
    """Walk from the lowest host of each component along the edges with most collectives."""
    clocks: list[HostClock | None] = [None] * n
    strong = sorted((e for e in edges if len(edges[e]) >= MIN_ENDS), key=lambda e: -len(edges[e]))
    for root in range(n):
        if clocks[root] is not None:
            continue
        clocks[root] = HostClock(root, 0, 0.0, 0, 0, fitted=False)
        grown = True
        while grown:
            grown = False
            for a, b in strong:
                known, new = (a, b) if clocks[a] is not None and clocks[b] is None else (b, a)
                base = clocks[known]
                if base is None or clocks[new] is not None or base.component != root:
                    continue
                pairs = edges[a, b] if (known, new) == (a, b) else [(y, x) for x, y in edges[a, b]]
                clocks[new] = _fit(base, pairs)
                grown = True
    done = [clock for clock in clocks if clock is not None]
    return [_with_closure(h, clock, done, edges) for h, clock in enumerate(done)]


def _fit(base: HostClock, pairs: Sequence[tuple[int, int]]) -> HostClock:
    """Offset by the median difference of ends; drift by a trimmed line where the run is long enough and it explains
    more.
    """
    known, new = np.array(pairs, np.int64).T
    known = _common(base, known)
    difference = new - known
    offset = int(np.median(difference))
    residual = difference - offset
    flat = HostClock(base.component, offset, 0.0, 0, max(_p95(residual), base.residual_ns), fitted=True)
    origin = int(new[0])
    x = (new - origin).astype(np.float64)
    if len(pairs) < DRIFT_ENDS or np.ptp(x) < DRIFT_SPAN_NS:
        return flat
    keep = np.ones(len(x), np.bool_)
    for _ in range(4):
        slope, level = np.polyfit(x[keep], residual[keep].astype(np.float64), 1)
        left = residual - (slope * x + level)
        scale = max(float(np.median(np.abs(left[keep]))), 1.0)
        keep = np.abs(left) <= 4 * scale
        if keep.sum() < DRIFT_ENDS:
            return flat
    worst = _p95(left)
    if worst * 2 > _p95(residual):
        return flat
    return HostClock(
        base.component, offset + round(level), float(slope), origin, max(worst, base.residual_ns), fitted=True
    )


def _p95(residual: np.ndarray[tuple[int], np.dtype[np.generic]]) -> int:
    return int(np.ceil(np.quantile(np.abs(residual), 0.95, method="higher")))


def _with_closure(
    host: int,
    clock: HostClock,
    clocks: Sequence[HostClock],
    edges: dict[tuple[int, int], list[tuple[int, int]]],
) -> HostClock:
    """Widen the residual by how badly the host's other edges close."""
    worst = clock.residual_ns
    for (a, b), pairs in edges.items():
        if host not in (a, b) or len(pairs) < MIN_ENDS or clocks[a].component != clocks[b].component:
            continue
        x, y = np.array(pairs, np.int64).T
        gap = _common(clocks[b], y) - _common(clocks[a], x)
        if clock.fitted:
            worst = max(worst, abs(int(np.median(gap))))
    return HostClock(clock.component, clock.offset_ns, clock.drift, clock.origin_ns, worst, clock.fitted)


def _common(clock: HostClock, times: Ints) -> Ints:
    common: Ints = times - clock.offset_ns - np.rint(clock.drift * (times - clock.origin_ns)).astype(np.int64)
    return common


def _merge_unknown(lane_hosts: Sequence[str | None], host_of: Sequence[int], clocks: list[HostClock]) -> set[int]:
    """Hosts that the files do not name and whose ends agree within jitter: they are on their reference's clock."""
    merged = set()
    for lane, name in enumerate(lane_hosts):
        clock = clocks[host_of[lane]]
        if (
            name is None
            and clock.fitted
            and abs(clock.offset_ns) <= max(JITTER_NS, 3 * clock.residual_ns)
            and not clock.drift
        ):
            clocks[host_of[lane]] = HostClock(clock.component, 0, 0.0, 0, clock.residual_ns, fitted=False)
            merged.add(host_of[lane])
    return merged


def _method(lane: int, host_of: Sequence[int], clocks: Sequence[HostClock], merged: set[int]) -> str:
    host, clock = host_of[lane], clocks[host_of[lane]]
    if clock.component != clocks[host_of[0]].component:
        return "not_identifiable"
    if clock.fitted:
        return "ends"
    shared = host in merged or host_of.count(host) > 1 or (lane == 0 and len(merged) > 0)
    return "shared_clock" if shared else "reference"
