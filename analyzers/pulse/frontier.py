"""Frontier accounting: whose stage the group's step is made of (docs/accounting.md, section 12).

Only durations are used, counted from each rank's own begin of the step, so that clocks need not agree.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Frontier:
    """The furthest rank at each stage boundary of each step.

    `rank` and `increment_ns` by (step, stage): who is furthest at the stage's end, and by how much the frontier moved;
    `alone_ns` by (rank, step): by how much less it would move without that rank.
    """

    rank: Ints
    increment_ns: Floats
    alone_ns: Floats

    @property
    def step_ns(self) -> Floats:
        """How far the frontier comes in each step: the sum of its increments."""
        total: Floats = self.increment_ns.sum(axis=1)
        return total


def meetings(wait_ns: Floats) -> Bools:
    """In which (step, stage) ranks meet: those in which any rank waited. `wait_ns` by (rank, step, stage)."""
    return np.asarray((wait_ns > 0).any(axis=0), np.bool_)


def frontier(local_ns: Floats, meets: Bools) -> Frontier:
    """The frontier of stages in their order. `local_ns` by (rank, step, stage), all known; `meets` by (step, stage).

    Where ranks meet they leave together, so all start the next stage at the frontier; of equals the lowest rank is the
    furthest.
    """
    ranks, steps, stages = local_ns.shape
    furthest = np.zeros((steps, stages), np.int64)
    increments = np.zeros((steps, stages))
    alone = np.zeros((ranks, steps))
    reached, before = np.zeros((ranks, steps)), np.zeros(steps)
    every = np.arange(steps)
    for stage in range(stages):
        reached = reached + local_ns[:, :, stage]
        first = reached.argmax(axis=0)
        now = reached[first, every]
        furthest[:, stage], increments[:, stage] = first, now - before
        ends = meets[:, stage] | (stage == stages - 1)
        alone[first[ends], every[ends]] += (now - _second(reached))[ends]
        reached = np.where(meets[:, stage], now, reached)
        before = now
    return Frontier(furthest, increments, alone)


def _second(reached: Floats) -> Floats:
    """The second furthest rank's time; of a single rank its own, since nobody would be there without it."""
    if len(reached) < 2:
        only: Floats = reached[0]
        return only
    second: Floats = np.partition(reached, -2, axis=0)[-2]
    return second
