"""What the common times of two hosts may be off by (docs/accounting.md, section 6)."""

from __future__ import annotations

from typing import Final

import numpy as np

from rankscope.analyzers.across_ranks.common_ends import EndFit, Ends, Floats, runs
from rankscope.analyzers.intervals import Ints, Spans

CLOSING_ENDS: Final = 10  # (ours) with fewer, the median of a set of ranks is jitter itself


def apart_ns(flat: Ends, fit: EndFit, component: Ints, rough: Ints, spans: Spans, between: Floats | float = 0.0) -> Ints:
    """What the common times of two hosts may be off by: the largest of the ends' deviation on either, how badly its sets
    of ranks close, and the fit's 95 % interval at the ends of the time that both are seen in. `spans[host]`: when it is
    seen, by its own clock; `between[host]`: |pings - ends|. Result: [host, host], 0 across components.
    """
    beyond = np.maximum(np.maximum(_deviations(flat, fit, component), _closures(flat, fit)), between)
    first, last, middle = spans.start - rough, spans.end - rough, fit.origin - rough
    begin = np.maximum(first[:, None], first[None, :])
    end = np.maximum(np.minimum(last[:, None], last[None, :]), begin)
    interval = [_t95(fit.freedom) * np.sqrt(_variance(fit.covariance, at, middle)) for at in (begin, end)]
    worst = np.maximum.reduce([*interval, np.maximum(beyond[:, None], beyond[None, :])])
    worst[component[:, None] != component[None, :]] = 0
    np.fill_diagonal(worst, 0)
    return np.asarray(np.ceil(np.round(worst, 3)), np.int64)


def _deviations(flat: Ends, fit: EndFit, component: Ints) -> Floats:
    """By host: the 95th percentile of deviations that is usual in its component, or its own as far as its ends tell."""
    own, least = np.zeros(flat.hosts), np.zeros(flat.hosts)
    order = np.lexsort((np.abs(fit.deviation), flat.host))
    for host, ends in runs(flat.host[order]):
        sizes = np.abs(fit.deviation[order[ends]])
        own[host] = sizes[int(0.95 * (len(sizes) - 1))]
        # Two standard errors of a share of 0.95 below it.
        least[host] = sizes[int(max(0.5, 0.95 - 2 * (0.0475 / len(sizes)) ** 0.5) * (len(sizes) - 1))]
    seen = np.bincount(flat.host, minlength=flat.hosts) > 0
    usual = {int(c): float(np.median(own[seen & (component == c)])) for c in np.unique(component[seen])}
    return np.maximum(least, [usual.get(int(c), 0.0) for c in component])


def _closures(flat: Ends, fit: EndFit) -> Floats:
    """By host: the largest median deviation in one of several sets of ranks, which triangles of hosts fail to close by."""
    worst = np.zeros(flat.hosts)
    pair = flat.host * (int(flat.members.max(initial=0)) + 1) + flat.members
    order = np.argsort(pair, kind="stable")
    for _, ends in runs(pair[order]):
        if ends.stop - ends.start >= CLOSING_ENDS:
            host = flat.host[order[ends.start]]
            worst[host] = max(worst[host], abs(float(np.median(fit.deviation[order[ends]]))))
    return worst


def _variance(covariance: Floats, at: Ints, middle: Ints) -> Floats:
    """Of the difference of two hosts' common times, at so many times, one a pair of hosts."""
    n = len(middle)
    v, c, d = covariance[:n, :n], covariance[:n, n:], covariance[n:, n:]
    row, column = (at - middle[:, None]) / 1e9, (at - middle[None, :]) / 1e9
    cross = v + row * c.T + c * column + row * column * d
    alone = np.diag(v)[:, None] + 2 * row * np.diag(c)[:, None] + row**2 * np.diag(d)[:, None]
    other = np.diag(v)[None, :] + 2 * column * np.diag(c)[None, :] + column**2 * np.diag(d)[None, :]
    found: Floats = np.maximum(alone + other - 2 * cross, 0.0)
    return found


def _t95(freedom: float) -> float:
    """Student's t that 95 % stay within, by its expansion around the normal's 1.96 (Abramowitz and Stegun 26.7.5)."""
    return 1.96 + 2.372 / freedom + 2.823 / freedom**2 + 2.556 / freedom**3 + 1.59 / freedom**4
