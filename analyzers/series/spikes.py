"""Steps that are long and alone: checkpoints, evaluations, hiccups; and whether they come at regular intervals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

# a running median over so many steps keeps edges where they are and forgets what lasts for fewer than half of them
WINDOW: Final = 21
# beyond so many standard deviations above it a step is a spike; of 10,000 normal steps 0.3 are
BEYOND: Final = 4.0
LEAST_SHARE: Final = 0.05  # of the level: below, a spike costs nothing worth a word (ours)
MAD_TO_SIGMA: Final = 1.4826  # for normal noise
LEAST_TIMES: Final = 4  # spikes that make a period
REGULAR: Final = 0.05  # of the period: how much the intervals may differ (ours)


@dataclass(frozen=True, slots=True)
class Period:
    """Spikes that come every `steps` steps; `excess_ns` is the median of what each costs above the level."""

    steps: int
    times: int
    excess_ns: float


def level(values: Floats) -> Floats:
    """The running median, centred; at the ends that of what is there. Cost: n x WINDOW."""
    if not len(values):
        return values
    half = WINDOW // 2
    padded = np.pad(values, half, mode="reflect") if len(values) > half else np.pad(values, half, mode="edge")
    windows = np.lib.stride_tricks.sliding_window_view(padded, WINDOW)
    return np.asarray(np.median(windows, axis=1), dtype=np.float64)


def noise(values: Floats, around: Floats) -> float:
    """Standard deviation of the steps around their level, by the median absolute deviation: spikes do not count.

    A running median follows the noise a little, by about 1/WINDOW of its variance, which is given back.
    """
    mad = float(np.median(np.abs(values - around))) if len(values) else 0.0
    return float(mad * MAD_TO_SIGMA / (1 - 1 / WINDOW) ** 0.5)


def spikes(values: Floats) -> Bools:
    """Which steps are spikes."""
    around = level(values)
    sigma = noise(values, around)
    return np.asarray(values - around > np.maximum(BEYOND * sigma, LEAST_SHARE * around), dtype=np.bool_)


def period(steps: npt.NDArray[np.int64], values: Floats, found: Bools) -> Period | None:
    """The period of the spikes; None where they are few or come as they like. Neighbouring spikes are one."""
    at = np.flatnonzero(found)
    if not at.size:
        return None
    first = at[np.insert(np.diff(at) > 1, 0, True)]
    if len(first) < LEAST_TIMES:
        return None
    intervals = np.diff(steps[first])
    usual = float(np.median(intervals))
    # a spike that was missed makes an interval of two periods
    apart = np.abs(intervals - usual * np.maximum(1, np.round(intervals / usual)))
    if np.mean(apart <= np.maximum(1.0, REGULAR * usual)) < 0.9:
        return None
    excess = values[at] - level(values)[at]
    return Period(round(usual), len(first), float(np.median(excess)))


def warm_up(values: Floats) -> int:
    """How many steps at the beginning are longer than twice the median of all (attention-gym #487): compiling, filling
    caches, growing memory.
    """
    long = values > 2 * np.median(values) if len(values) else np.zeros(0, bool)
    return int(np.argmin(long)) if len(long) and not long.all() else 0
