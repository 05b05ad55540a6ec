"""Fits every host's clock to the ends of symmetric collectives, and to pings (docs/accounting.md, section 6).

A symmetric collective (all-reduce, all-gather, reduce-scatter, all-to-all) ends on all its ranks together, whatever
their clocks say. Hosts that share enough of them, directly or over others, are one component and fitted together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from rankscope.analyzers.across_ranks.clock import Clocks, Contradiction, End, HostClock
from rankscope.analyzers.across_ranks.clock_residual import apart_ns
from rankscope.analyzers.across_ranks.common_ends import Ends, solve
from rankscope.analyzers.across_ranks.host_links import components, rough_offsets
from rankscope.analyzers.across_ranks.ping_fit import Fitted, ping_lines, with_pings
from rankscope.analyzers.across_ranks.pings import HubPings
from rankscope.analyzers.intervals import Ints, Spans

SYMMETRIC: Final = frozenset({"all_reduce", "all_gather", "reduce_scatter", "all_to_all"})
JITTER_NS: Final = (
    50_000  # (ours) hosts unknown: ends that agree so well, or within 3 x their own spread, are on one clock
)
TOLD_NS_PER_S: Final = 25_000.0  # (ours) a drift is stated where its standard error is below a quarter of that
MOST_ENDS: Final = 1_000  # (ours) of one set of ranks: more narrow the fit below a thirtieth of the jitter, and cost


def fit_clocks(
    lane_hosts: Sequence[str | None], ends: Sequence[End], spans: Spans | None = None, pings: HubPings | None = None
) -> Clocks:
    """Fit every host's clock.

    `lane_hosts[i]`: host (with base) of lane i, None unknown: then the rank is its own host at first. `spans`: the time
    by its own clock in which each lane is compared with others; without it that from its first end to its last. `pings`:
    of hosts with one of them, whether or not a lane is there.
    Cost: linear in ends, quadratic in hosts.
    """
    labels = [host if host is not None else f"\0lane {i}" for i, host in enumerate(lane_hosts)]
    if pings is not None and pings.hub is None:
        labels.append("\0hub")
    order = {label: i for i, label in enumerate(dict.fromkeys(labels))}
    host_of = [order[label] for label in labels[: len(lane_hosts)]]
    fitted = _by_ends(host_of, ends, spans, len(order))
    contradicted: list[Contradiction] = []
    if pings is not None:
        hub = order["\0hub"] if pings.hub is None else host_of[pings.hub]
        seen = _host_spans(fitted.flat, host_of, spans)
        lines = ping_lines(pings, host_of, hub, seen)
        if lines:
            fitted, contradicted = with_pings(fitted, lines, hub, seen)
    clocks = _clocks(fitted)
    met = replace(fitted.flat, own=fitted.fit.met)
    merged = _merge_unknown(lane_hosts, host_of, clocks, _host_spans(met, [], None))
    methods = tuple(_method(lane, host_of, clocks, merged, fitted.by_ends) for lane in range(len(lane_hosts)))
    return Clocks(tuple(host_of), tuple(clocks), methods, fitted.apart, tuple(contradicted))


def _by_ends(host_of: Sequence[int], ends: Sequence[End], spans: Spans | None, hosts: int) -> Fitted:
    flat = _flat(np.array(host_of, np.int64), ends, hosts)
    component, shared = components(flat.common, flat.host, hosts)
    flat = _across_hosts(flat, component)
    rough = rough_offsets(flat.common, flat.host, flat.own, component, shared)
    fit = solve(flat, rough, component != np.arange(hosts))
    met = replace(flat, own=fit.met)
    apart = apart_ns(met, fit, component, rough, _host_spans(met, host_of, spans))
    return Fitted(flat, component, component, rough, fit, apart)


def _flat(host_of: Ints, ends: Sequence[End], hosts: int) -> Ends:
    """Ends of collectives with several hosts in columns; of one set of ranks so many as are worth their cost."""
    by_members: dict[bytes, list[End]] = {}
    for end in ends:
        by_members.setdefault(np.asarray(end.lanes, np.int64).tobytes(), []).append(end)
    kept = [(i, e) for i, same in enumerate(by_members.values()) for e in _thinned(host_of, same)]
    if not kept:
        none = np.empty(0, np.int64)
        return Ends(none, none, none, none, hosts)
    counts = [len(e.lanes) for _, e in kept]
    return Ends(
        common=np.repeat(np.arange(len(kept)), counts),
        members=np.repeat([i for i, _ in kept], counts),
        host=host_of[np.concatenate([e.lanes for _, e in kept])],
        own=np.concatenate([e.ends for _, e in kept]),
        hosts=hosts,
    )


def _thinned(host_of: Ints, same: list[End]) -> list[End]:
    if len(set(host_of[same[0].lanes].tolist())) < 2:
        return []
    if len(same) <= MOST_ENDS:
        return same
    return [same[i] for i in np.linspace(0, len(same) - 1, MOST_ENDS).astype(np.int64)]


def _across_hosts(flat: Ends, component: Ints) -> Ends:
    """Each component's part of each collective, where it still joins hosts."""
    _, common = np.unique(flat.common * (flat.hosts + 1) + component[flat.host], return_inverse=True)
    own = np.unique(np.stack((common, flat.host)), axis=1)[0]
    several = np.bincount(own, minlength=int(common.max(initial=0)) + 1) > 1
    return Ends(common, flat.members, flat.host, flat.own, flat.hosts).part(several[common])


def _host_spans(flat: Ends, host_of: Sequence[int], spans: Spans | None) -> Spans:
    """When each host is compared with others, by its own clock; 0 to 0 where it never is."""
    first, last = np.full(flat.hosts, np.iinfo(np.int64).max), np.full(flat.hosts, np.iinfo(np.int64).min)
    np.minimum.at(first, flat.host, flat.own)
    np.maximum.at(last, flat.host, flat.own)
    if spans is not None:
        np.minimum.at(first, host_of, spans.start)
        np.maximum.at(last, host_of, spans.end)
    return Spans(np.where(first <= last, first, 0), np.where(first <= last, last, 0))


def _clocks(fitted: Fitted) -> list[HostClock]:
    fit, component, n = fitted.fit, fitted.component, len(fitted.component)
    error = np.sqrt(np.diag(fit.covariance)[n:])
    return [
        HostClock(
            component=int(component[h]),
            offset_ns=int(fitted.rough[h]) + round(float(fit.offset[h])),
            drift=float(fit.drift[h]) / 1e9,
            origin_ns=int(fit.origin[h]),
            residual_ns=int(fitted.apart[h, component[h]]),
            fitted=int(component[h]) != h,
            drift_told=bool(error[h] < TOLD_NS_PER_S),
        )
        for h in range(n)
    ]


def _merge_unknown(
    lane_hosts: Sequence[str | None], host_of: Sequence[int], clocks: list[HostClock], spans: Spans
) -> set[int]:
    """Hosts that the files do not name and whose ends agree within jitter: they are on their reference's clock."""
    merged = set()
    for host in {host for host, name in zip(host_of, lane_hosts, strict=True) if name is None}:
        clock = clocks[host]
        if not clock.fitted:
            continue
        ahead = [clock.offset_ns + clock.drift * (int(at[host]) - clock.origin_ns) for at in (spans.start, spans.end)]
        if max(map(abs, ahead)) <= max(JITTER_NS, 3 * clock.residual_ns):
            clocks[host] = HostClock(clock.component, 0, 0.0, 0, clock.residual_ns, fitted=False)
            merged.add(host)
    return merged


def _method(
    lane: int, host_of: Sequence[int], clocks: Sequence[HostClock], merged: set[int], by_ends: Ints
) -> str:
    host, clock = host_of[lane], clocks[host_of[lane]]
    if clock.component != clocks[host_of[0]].component:
        return "not_identifiable"
    if clock.fitted:
        return "ends" if by_ends[host] == by_ends[clock.component] else "pings"
    shared = host in merged or host_of.count(host) > 1 or (lane == 0 and len(merged) > 0)
    return "shared_clock" if shared else "reference"
