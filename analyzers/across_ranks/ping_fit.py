"""Joins what ends tell of clocks with what pings tell: hosts that share no collective are linked by their pings, hosts
that have both are fitted to both, where they agree (docs/accounting.md, section 6).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rankscope.analyzers.across_ranks.clock import Contradiction
from rankscope.analyzers.across_ranks.clock_residual import apart_ns
from rankscope.analyzers.across_ranks.common_ends import EndFit, Ends, Floats, solve
from rankscope.analyzers.across_ranks.pings import REACH_NS, HubPings, PingLine, Pings, ping_line
from rankscope.analyzers.intervals import Ints, Spans


@dataclass(frozen=True, slots=True)
class Fitted:
    """Clocks of all hosts as far as they are fitted. `by_ends`: components that ends alone make."""

    flat: Ends
    by_ends: Ints
    component: Ints
    rough: Ints
    fit: EndFit
    apart: Ints

    def ahead(self, host: int, own: int) -> int:
        """How far a host's clock is ahead of its component's, at this time of its own."""
        beyond = self.fit.offset[host] + self.fit.drift[host] * ((own - int(self.fit.origin[host])) / 1e9)
        return int(self.rough[host]) + round(float(beyond))


def ping_lines(pings: HubPings, host_of: Sequence[int], hub: int, spans: Spans) -> dict[int, PingLine]:
    """The line of each host that asked the hub. `spans`: when each host is compared with others, by its own clock."""
    by_host: dict[int, list[Pings]] = {}
    for asked in pings.asked:
        if host_of[asked.lane] != hub and len(asked.own):
            by_host.setdefault(host_of[asked.lane], []).append(asked)
    lines = {}
    for host, rounds in sorted(by_host.items()):
        begin, end = int(spans.start[host]), int(spans.end[host])
        lines[host] = ping_line(host, hub, rounds, *((begin, end) if end else (1, 0)))
    hubs = {host: line.origin_ns - line.ahead_ns for host, line in lines.items()}
    middle = sorted(hubs.values())[len(hubs) // 2] if hubs else 0
    near = {h for h, line in lines.items() if _reaches(spans, h, line.origin_ns) and _reaches(spans, hub, hubs[h])}
    return {h: line for h, line in lines.items() if h in near and abs(hubs[h] - middle) <= 2 * REACH_NS}


def _reaches(spans: Spans, host: int, at: int) -> bool:
    """The time in which a host is compared is near enough to be by the clock that pings read."""
    begin, end = int(spans.start[host]), int(spans.end[host])
    return not end or begin - REACH_NS <= at <= end + REACH_NS


def with_pings(ends: Fitted, lines: Mapping[int, PingLine], hub: int, spans: Spans) -> tuple[Fitted, list[Contradiction]]:
    """The clocks fitted to ends and pings together. Lines that contradict ends are left out; how far they are from them
    is part of what the times of their hosts may be off by. Without a sound fit, as lies may cause, ends stand alone.
    """
    between, contradicted = _checked(ends, lines, hub)
    kept = [line for host, line in lines.items() if host not in {c.host for c in contradicted}]
    component = _joined(ends.component, [hub, *(line.rows.host for line in kept)])
    rough = _linked(ends, kept, hub, component)
    free = component != np.arange(len(component))
    try:
        with np.errstate(all="ignore"):  # times may be lies: what comes of them is judged below
            fit = solve(ends.flat, rough, free, [line.rows for line in kept])
            apart = apart_ns(replace(ends.flat, own=fit.met), fit, component, rough, spans, between)
    except np.linalg.LinAlgError:
        return ends, contradicted
    if not _sound(fit) or (apart < 0).any():
        return ends, contradicted
    way = _ways(ends, kept, hub)
    linked = (component[:, None] == component[None, :]) & (ends.by_ends[:, None] != ends.by_ends[None, :])
    apart = np.where(linked, np.maximum(apart, way[:, None] + way[None, :]), apart)
    return replace(ends, component=component, rough=rough, fit=fit, apart=apart), contradicted


def _sound(fit: EndFit) -> bool:
    finite = all(bool(np.isfinite(values).all()) for values in (fit.offset, fit.drift, fit.covariance))
    return finite and bool((np.diag(fit.covariance) >= 0).all())


def _checked(ends: Fitted, lines: Mapping[int, PingLine], hub: int) -> tuple[Floats, list[Contradiction]]:
    """By host |pings - ends|, and where that is beyond both. Where the hub has no ends with them, hosts are compared
    with the one of them that most agree with; of two alone either may be wrong.
    """
    between = np.zeros(len(ends.component))
    contradicted = []
    for component in np.unique(ends.component):
        hosts = [host for host in lines if ends.component[host] == component]
        anchored = bool(ends.component[hub] == component)
        if len(hosts) + anchored < 2:
            continue
        times = ends.flat.own - ends.rough[ends.flat.host]
        times = times[ends.component[ends.flat.host] == component]
        moments = [int(times.min()), int(times.max())]
        beyond = [[_beyond(ends, lines[host], hub if anchored else None, at) for at in moments] for host in hosts]
        middle = None if anchored else _amid([max(b, key=abs) for b in beyond])
        suspected = set()
        for position, host in enumerate(hosts):
            other = hub if middle is None else hosts[middle]
            by = [b - (0 if middle is None else beyond[middle][i]) for i, b in enumerate(beyond[position])]
            open_ns = int(ends.apart[host, other]) + sum(
                max(lines[h].off_by(at + int(ends.rough[h])) for at in moments) for h in {host, other} & set(hosts)
            )
            between[host] = max(map(abs, by))
            if between[host] > open_ns:
                suspected.add(host)
        if middle is not None and len(hosts) == 2:
            between[hosts] = between[hosts].max()
            suspected = set(hosts) if suspected else suspected
        contradicted += [Contradiction(host, round(float(between[host]))) for host in sorted(suspected)]
    return between, contradicted


def _beyond(ends: Fitted, line: PingLine, hub: int | None, at: int) -> int:
    """Pings less ends at a common time; without the hub's ends but for what is the same for all hosts."""
    host = line.rows.host
    own = at + int(ends.rough[host])
    hubs = 0 if hub is None else ends.ahead(hub, at + int(ends.rough[hub]))
    return line.at(own) + hubs - ends.ahead(host, own)


def _amid(values: Sequence[int]) -> int:
    """The position of the value that the others are closest to."""
    return min(range(len(values)), key=lambda i: sum(abs(values[i] - other) for other in values))


def _joined(component: Ints, linked: Iterable[int]) -> Ints:
    """Components with those of the linked hosts made one, named after the lowest host."""
    parts = np.unique(component[list(linked)])
    return np.asarray(np.where(np.isin(component, parts), parts.min(), component), np.int64)


def _linked(ends: Fitted, kept: Sequence[PingLine], hub: int, component: Ints) -> Ints:
    """Rough offsets against each new component's lowest host: those of ends, moved by one line a component."""
    rough = ends.rough.copy()
    placed = {int(ends.component[hub])}
    for line in sorted(kept, key=lambda line: line.off_by(line.origin_ns)):
        host, part = line.rows.host, int(ends.component[line.rows.host])
        if part not in placed:
            placed.add(part)
            rough[ends.component == part] += int(rough[hub]) + line.ahead_ns - int(ends.rough[host])
    lowest = component[hub]
    rough[component == lowest] -= int(rough[lowest])
    return rough


def _ways(ends: Fitted, kept: Sequence[PingLine], hub: int) -> Ints:
    """By host: half the round trip by which its component of ends is linked to the hub's."""
    way = np.zeros(len(ends.component), np.int64)
    for line in kept:
        part = ends.component == ends.component[line.rows.host]
        if ends.component[line.rows.host] != ends.component[hub]:
            way[part] = np.maximum(way[part], int(np.ceil(line.off_by(line.origin_ns))))
    return way
