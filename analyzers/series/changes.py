"""Lasting changes of a series of step times: since when, from what to what.

Spikes are taken out first. Then the series is cut in two where the means of the two sides differ most for their lengths
(the likelihood ratio of one change of mean in normal noise), as long as that difference is beyond chance, and each side
again (binary segmentation, Scott and Knott 1974). The noise is measured around the running median, and widened where
neighbouring steps resemble each other, since then fewer of them are independent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from rankscope.analyzers.series.spikes import Floats, level, noise, spikes

# standard deviations that a difference must be beyond: benchmarks/series.py counts 0.05 changes or fewer in 10,000 steps
BEYOND: Final = 3.5
LEAST_STEPS: Final = 7  # on either side: as many as the sign test of a finding needs
LEAST_SHARE: Final = 0.03  # of the level; below it a change is not worth a word (ours)
# of the steps on either side that lie on their side of the middle between the two levels: in a series that goes to and fro
# between two levels half of them do
LASTING_SHARE: Final = 0.6
MOST_CHANGES: Final = 64


@dataclass(frozen=True, slots=True)
class Change:
    """The level changed with step `at` (a position in the series) from `before_ns` to `after_ns`, medians of the sides."""

    at: int
    before_ns: float
    after_ns: float
    score: float  # standard deviations

    @property
    def share(self) -> float:
        """By how much of the level before."""
        return self.after_ns / self.before_ns - 1


def changes(values: Floats) -> list[Change]:
    """The lasting changes, in order of the steps; steps that are NaN are left out. Cost: n log n."""
    known = np.flatnonzero(~np.isnan(values))
    kept = known[~spikes(values[known])]
    series = values[kept]
    if len(series) < 2 * LEAST_STEPS:
        return []
    sigma = _spread(series)
    if sigma <= 0:
        sigma = float(np.finfo(np.float64).eps) * max(1.0, float(np.abs(series).max()))
    cuts = sorted(_cuts(series, sigma))
    edges = [0, *(cut for cut, _ in cuts), len(series)]
    found = []
    for number, (cut, score) in enumerate(cuts):
        left, right = series[edges[number] : cut], series[cut : edges[number + 2]]
        before, after = float(np.median(left)), float(np.median(right))
        if before > 0 and abs(after / before - 1) >= LEAST_SHARE and _lasts(left, right, (before + after) / 2):
            found.append(Change(int(kept[cut]), before, after, score))
    return found


def _lasts(left: Floats, right: Floats, middle: float) -> bool:
    """Whether the sides are two levels, and not one series that goes to and fro."""
    lower, upper = (left, right) if np.median(left) < np.median(right) else (right, left)
    return bool(np.mean(lower < middle) >= LASTING_SHARE and np.mean(upper > middle) >= LASTING_SHARE)


def _cuts(series: Floats, sigma: float) -> list[tuple[int, float]]:
    """Where the series is cut, each with its score."""
    found: list[tuple[int, float]] = []
    todo = [(0, len(series))]
    while todo and len(found) < MOST_CHANGES:
        begin, end = todo.pop()
        cut, score = _best_cut(series[begin:end], sigma)
        if score > BEYOND:
            found.append((begin + cut, score))
            todo += [(begin, begin + cut), (begin + cut, end)]
    return found


def _best_cut(part: Floats, sigma: float) -> tuple[int, float]:
    """Where two sides differ most: |mean difference| / sigma x sqrt(k (n - k) / n)."""
    n = len(part)
    if n < 2 * LEAST_STEPS:
        return 0, 0.0
    left = np.arange(LEAST_STEPS, n - LEAST_STEPS + 1)
    total = np.concatenate(([0.0], np.cumsum(part - part.mean())))  # around the mean: no digits are lost
    apart = np.abs(total[left]) / (left * (n - left)) * n  # of the two means
    scores = apart / sigma * np.sqrt(left * (n - left) / n)
    best = int(scores.argmax())
    return int(left[best]), float(scores[best])


def _spread(series: Floats) -> float:
    """The noise, widened by sqrt((1 + r) / (1 - r)) for the correlation r of neighbours."""
    around = level(series)
    rest = series - around
    sigma = noise(series, around)
    inner = np.abs(rest) <= 4 * sigma
    first, second = rest[:-1], rest[1:]
    both = inner[:-1] & inner[1:]
    if sigma <= 0 or both.sum() < 2 * LEAST_STEPS:
        return sigma
    r = float(np.mean(first[both] * second[both])) / max(float(np.mean(rest[inner] ** 2)), 1e-300)
    r = min(max(r + 1 / 20, 0.0), 0.8)  # the running median takes about 1/20 of it away
    return float(sigma * ((1 + r) / (1 - r)) ** 0.5)
