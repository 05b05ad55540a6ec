"""How often are lasting changes of the step time found, and how often where there is none? Seeded series, no machine.

Noise of 3 and 5 % of the step, independent and with neighbours alike (r = 0.3); checkpoints and evaluations as spikes.
"""

from __future__ import annotations

import sys

import measure
import numpy as np

from rankscope.analyzers.series.changes import changes

RUNS, LONG = 400, 100  # series with a change; series of 10,000 steps without
NEAR = 10  # steps


def series(rng: np.random.Generator, steps: int, spread: float, alike: float) -> np.ndarray:
    """Step times around 100 with noise, and with a checkpoint every 97 and an evaluation every 500 steps."""
    noise = rng.standard_normal(steps)
    for i in range(1, steps if alike else 0):
        noise[i] = alike * noise[i - 1] + (1 - alike**2) ** 0.5 * noise[i]
    times = 100 * (1 + spread * noise)
    times[50::97] *= 2.2
    for begin in range(300, steps, 500):
        times[begin : begin + 5] *= 1.6
    return times


def main() -> int:
    """Print and keep the figures; exit status 1 where a target is missed."""
    report = measure.Report("series")
    for alike in (0.0, 0.3):
        rng = np.random.default_rng(2026)
        alarms = sum(len(changes(series(rng, 10_000, 0.05, alike))) for _ in range(LONG))
        report.target(f"false alarms in 10,000 steps, r {alike}", alarms / LONG, 1.0, at_least=False, unit="")
        for spread in (0.03, 0.05):
            found = at_once = 0
            for _ in range(RUNS):
                steps = int(rng.integers(200, 3_000))
                at = int(rng.integers(60, steps - 60))
                times = series(rng, steps, spread, alike)
                times[at:] *= 1.1
                found += any(abs(change.at - at) <= NEAR for change in changes(times))
                at_once += any(abs(change.at - at) <= NEAR for change in changes(times[: at + NEAR]))
            what = f"10 % at noise {spread:.0%}, r {alike}"
            report.target(f"{what}: dated within {NEAR} steps", found / RUNS, 0.95, unit="of series")
            # ten steps of resembling neighbours hold less than ten independent ones: printed, and no target
            report.target(f"{what}: seen {NEAR} steps later", at_once / RUNS, 0.0 if alike else 0.95, unit="of series")
    report.write(quick=False)
    return int(not all(target["met"] for target in report.content["targets"]))


if __name__ == "__main__":
    sys.exit(main())
