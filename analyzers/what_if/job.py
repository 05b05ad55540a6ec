"""A training job as operations and the order that holds them: what a replay needs, and nothing else.

Each worker runs one program a step: work of its own, collectives and transfers that it starts, and the points at which it
needs them done. A meeting brings the operations of several workers together: none of them can end before the last has
come.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


class Act(IntEnum):
    """What a worker does next: work for itself, start an operation with others, need it to be over."""

    OWN = 0
    START = 1
    NEED = 2


Program = Sequence[tuple[Act, int]]  # acts, each with its operation


@dataclass(frozen=True, slots=True)
class Worker:
    """One place of the job. `stage` None: no pipeline, or its layout is not known."""

    name: str
    rank: int
    stage: int | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """Operations as columns, one entry each; `meeting` -1: of one worker alone.

    `ns`: for work of its own the duration; for what workers do together from the last arrival to this worker's end.
    `ideal`: the same, with the work in balance over the workers, none lost; `typical`: as the worker in the middle does it.
    A part of a job is a step, or several that run on.
    """

    workers: Sequence[Worker]
    kinds: Sequence[str]  # names of kinds of operations
    kind: Ints
    worker: Ints
    ns: Ints
    ideal: Ints
    typical: Ints
    meeting: Ints
    members: Sequence[Sequence[int]]  # by meeting: its operations
    programs: Mapping[int, Sequence[Program]]  # by part: one a worker
    measured_ns: Mapping[int, int]  # by part: what it took
    stages: int | None = None  # None: the layout is not known
    begins: Sequence[int] = ()  # by worker, ns: how much later than the first it begins; empty: together
    steps_a_part: int = 1

    @property
    def together(self) -> Bools:
        """Which operations are of several workers."""
        return np.asarray(self.meeting >= 0, np.bool_)
