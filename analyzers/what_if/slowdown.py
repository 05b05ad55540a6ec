"""How much slower a job is than the same job with its work in balance, and where that comes from.

S = T / T_ideal, both replayed; ideal: the work of one's own spread evenly over the workers, so that none disappears, and
what workers do together as its like does in the middle, so that waiting disappears. The parts of S are replays in which
only some operations keep their own durations: of one kind, of one worker, of one stage. M_W: the share of the loss that
goes when the slowest 3 % of the workers (at least one) become ideal; M_S: when the last stage does (arXiv 2505.05713).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Final

import numpy as np

from rankscope.analyzers.what_if.job import Bools, Job
from rankscope.analyzers.what_if.replay import step_ns

SLOWEST_SHARE: Final = 0.03  # of the workers, for M_W
MOST_WORKERS: Final = 32  # replayed one by one


@dataclass(frozen=True, slots=True)
class Slowdown:
    """All factors are of the ideal step; None where the layout or the loss is not known. Times are means a step."""

    slowdown: float
    step_ns: int  # replayed, unchanged
    ideal_ns: int
    measured_ns: int
    replay_error_share: float  # of the measured step
    by_operation: dict[str, float]
    by_worker: dict[str, float]  # of MOST_WORKERS, those with most work
    by_stage: dict[str, float] | None
    worker_share: float | None  # M_W
    stage_share: float | None  # M_S
    slowest: list[str]  # the workers that M_W makes ideal


class Replays:
    """Replays of one job in which some operations keep their durations and the others are ideal."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.unchanged_ns = step_ns(job, job.ns)
        self.ideal_ns = step_ns(job, job.ideal)

    def only(self, kept: Bools) -> float:
        """The mean step, nanoseconds, when only these operations are as they were."""
        return step_ns(self.job, np.where(kept, self.job.ns, self.job.ideal))

    def given_back(self, fixed: Bools) -> float | None:
        """The share of the loss that goes when these operations are ideal; None where nothing is lost."""
        loss = self.unchanged_ns - self.ideal_ns
        return (self.unchanged_ns - self.only(~fixed)) / loss if loss > 0 else None


def slowdown(job: Job) -> Slowdown:
    """The slowdown of a job and its parts. Cost: a replay for each kind and stage, and for MOST_WORKERS workers."""
    replays = Replays(job)
    best = replays.ideal_ns
    names = [worker.name for worker in job.workers]
    by_worker = {names[i]: replays.only(job.worker == i) / best for i in heaviest(job)}
    slowest = sorted(by_worker, key=lambda name: -by_worker[name])[: ceil(len(names) * SLOWEST_SHARE)]
    stage_of = np.array([-1 if worker.stage is None else worker.stage for worker in job.workers])[job.worker]
    staged = job.stages is not None and bool((stage_of >= 0).all())
    measured = sum(job.measured_ns.values()) / len(job.measured_ns) / job.steps_a_part
    return Slowdown(
        slowdown=replays.unchanged_ns / best,
        step_ns=round(replays.unchanged_ns),
        ideal_ns=round(best),
        measured_ns=round(measured),
        replay_error_share=abs(replays.unchanged_ns - measured) / measured,
        by_operation={
            name: replays.only(job.kind == kind) / best
            for kind, name in enumerate(job.kinds)
            if (job.kind == kind).any()
        },
        by_worker=by_worker,
        by_stage={str(s): replays.only(stage_of == s) / best for s in range(job.stages or 0)} if staged else None,
        worker_share=replays.given_back(np.isin(job.worker, [names.index(name) for name in slowest])),
        stage_share=replays.given_back(stage_of == (job.stages or 0) - 1) if staged else None,
        slowest=slowest,
    )


def heaviest(job: Job) -> list[int]:
    """The workers whose own work is furthest above the ideal, in their order; all of them where they are few."""
    above = np.bincount(job.worker, np.where(job.together, 0, job.ns - job.ideal), len(job.workers))
    return sorted(np.argsort(-above, kind="stable")[:MOST_WORKERS].tolist())
