"""How much slower a job is than the same job with its work in balance, and where that comes from.

S = T / T_ideal, both replayed; ideal: every operation takes what its kind takes on average (work of one's own: the mean,
so that no work disappears; what workers do together: the median, so that waiting disappears). The parts of S are replays in
which only some operations keep their own durations: of one kind, of one worker, of one stage. M_W: the share of the loss
that goes when the slowest 3 % of the workers (at least one) become ideal; M_S: when the last stage does (arXiv 2505.05713).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Final

import numpy as np
import numpy.typing as npt

from rankscope.analyzers.what_if.job import Ints, Job
from rankscope.analyzers.what_if.replay import replay

SLOWEST_SHARE: Final = 0.03  # of the workers, for M_W

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Slowdown:
    """All factors are of the ideal step; None where the layout or the loss is not known. Times are medians a step."""

    slowdown: float
    step_ns: int  # replayed, unchanged
    ideal_ns: int
    measured_ns: int
    replay_error_share: float  # of the measured step
    by_operation: dict[str, float]
    by_worker: dict[str, float]
    by_stage: dict[str, float] | None
    worker_share: float | None  # M_W
    stage_share: float | None  # M_S
    slowest: list[str]  # the workers that M_W makes ideal


class Replays:
    """Replays of one job in which some operations keep their durations and the others are ideal."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.ideal = ideal(job)
        self.unchanged_ns = self._mean(job.ns)
        self.ideal_ns = self._mean(self.ideal)

    def only(self, kept: Bools) -> float:
        """The mean step, nanoseconds, when only these operations are as they were."""
        return self._mean(np.where(kept, self.job.ns, self.ideal))

    def _mean(self, ns: Ints) -> float:
        return float(np.mean(list(replay(self.job, ns).values())))


def ideal(job: Job) -> Ints:
    """What every operation takes when its kind is in balance, nanoseconds."""
    result = np.zeros_like(job.ns)
    for kind in np.unique(job.kind):
        mine = job.kind == kind
        middle = np.mean if int(kind) in job.own_kinds else np.median
        result[mine] = round(float(middle(job.ns[mine])))
    return result


def slowdown(job: Job) -> Slowdown:
    """The slowdown of a job and its parts. Cost: a replay for each kind, worker and stage."""
    replays = Replays(job)
    base, best = replays.unchanged_ns, replays.ideal_ns
    stage_of = np.array([-1 if worker.stage is None else worker.stage for worker in job.workers])
    names = [worker.name for worker in job.workers]
    by_worker = {name: replays.only(job.worker == i) / best for i, name in enumerate(names)}
    order = sorted(range(len(names)), key=lambda i: -by_worker[names[i]])
    slowest = order[: ceil(len(names) * SLOWEST_SHARE)]
    loss = base - best
    by_stage = share = None
    if job.stages is not None and (stage_of >= 0).all():
        stages = range(job.stages)
        by_stage = {str(stage): replays.only(stage_of[job.worker] == stage) / best for stage in stages}
        share = _given_back(replays, stage_of[job.worker] == job.stages - 1, loss)
    measured = float(np.mean(list(job.measured_ns.values())))
    return Slowdown(
        slowdown=base / best,
        step_ns=round(base),
        ideal_ns=round(best),
        measured_ns=round(measured),
        replay_error_share=abs(base - measured) / measured,
        by_operation={name: replays.only(job.kind == kind) / best for kind, name in enumerate(job.kinds)},
        by_worker=by_worker,
        by_stage=by_stage,
        worker_share=_given_back(replays, np.isin(job.worker, slowest), loss),
        stage_share=share,
        slowest=[names[i] for i in slowest],
    )


def _given_back(replays: Replays, fixed: Bools, loss: float) -> float | None:
    """The share of the loss that goes when these operations are ideal; None where nothing is lost."""
    return (replays.unchanged_ns - replays.only(~fixed)) / loss if loss > 0 else None
