"""Creep: the peak of a step grows from step to step and goes on growing.

The slope is Theil and Sen's: the median of the slopes between all pairs of steps, which single outliers do not move.
Whether it is there at all is the sign test of Cox and Stuart (1955): each step of the first half against the one half
the series later; under no trend either is the larger one as often as the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb
from typing import Final, Literal

import numpy as np

WARM_UP_STEPS: Final = 1  # of the recording: gradients and optimizer state come into being in it
LEAST_STEPS: Final = 14  # seven pairs: the fewest with which the test can fall below its level (1/2^7 = 0.8 %)
LEVEL: Final = 0.01
MOST_STEPS: Final = 1_500  # of which all pairs are taken, evenly chosen; a million pairs take some 30 ms

Verdict = Literal["creeps", "steady", "unknown"]


@dataclass(frozen=True, slots=True)
class Creep:
    """`bytes_per_step`: the slope; `p_value`: of the sign test. None, with the reason, where they cannot be told."""

    verdict: Verdict
    reason: str | None
    steps: int  # that were judged
    bytes_per_step: float | None
    grown_bytes: int | None  # the slope over the steps judged
    p_value: float | None
    steps_to_oom: float | None
    steps_to_oom_reason: str | None


def creep(peaks: Sequence[tuple[int, int]], limit_bytes: int | None) -> Creep:
    """Judge (step, peak) in order of steps. `limit_bytes`: memory of the device, None where it is not known."""
    judged = peaks[WARM_UP_STEPS:]
    if len(judged) < LEAST_STEPS:
        reason = f"{len(judged)} steps after the first were recorded; a trend needs {LEAST_STEPS}"
        return Creep("unknown", reason, len(judged), None, None, None, None, reason)
    step, held = (np.array(column, np.float64) for column in zip(*judged, strict=True))
    slope = theil_sen(step, held)
    p = sign_test(held)
    half = len(held) // 2
    creeps = p <= LEVEL and slope > 0 and theil_sen(step[half:], held[half:]) > 0
    left, why = _left(slope, float(held[-1]), limit_bytes) if creeps else (None, "memory does not grow")
    return Creep(
        "creeps" if creeps else "steady", None, len(held), slope, round(slope * (step[-1] - step[0])), p, left, why
    )


def theil_sen(x: np.ndarray, y: np.ndarray) -> float:
    """The median slope between all pairs; x ascending."""
    if len(x) > MOST_STEPS:
        chosen = np.linspace(0, len(x) - 1, MOST_STEPS).astype(np.int64)
        x, y = x[chosen], y[chosen]
    i, j = np.triu_indices(len(x), 1)
    apart = x[j] - x[i]
    there = apart > 0
    return float(np.median((y[j] - y[i])[there] / apart[there])) if there.any() else 0.0


def sign_test(values: np.ndarray) -> float:
    """The chance of so many rises or more without a trend; ties count for neither side."""
    half = len(values) // 2
    differ = values[-half:] - values[:half]
    rises, falls = int((differ > 0).sum()), int((differ < 0).sum())
    n = rises + falls
    return float(sum(comb(n, k) for k in range(rises, n + 1)) / 2**n)


def _left(slope: float, held: float, limit_bytes: int | None) -> tuple[float | None, str | None]:
    """Steps until the device is full at this slope: the most there can be, since not all of it is the allocator's."""
    if limit_bytes is None:
        return None, "the file does not say how much memory the device has"
    return max(0.0, (limit_bytes - held) / slope), None
