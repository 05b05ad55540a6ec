"""Fixes to try: what is changed, and to what. A small grammar, so that nothing a user types is run as code.

rank 3 = typical      the rank's own work as long as that of its peers
all = typical         everybody's
stage 2 = typical     of one pipeline stage
rank 3 x 0.8          the rank's own work at 80 %
network x 2           twice the bandwidth: transfers take half
data_loading x 0      any kind of operation by its name, at a factor
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from rankscope.analyzers.errors import BadSelection
from rankscope.analyzers.what_if.job import Bools, Ints, Job
from rankscope.analyzers.what_if.replay import step_ns

_GRAMMAR: Final = re.compile(
    r"\s*([\w@:./, -]{1,100}?)\s*(?:=\s*(typical|balanced)|[x*]\s*(\d{1,6}(?:\.\d{1,6})?))\s*\Z"
)
_PLACE: Final = re.compile(r"(rank|stage)\s+(\d{1,9})\Z")
HELP: Final = "such as 'rank 3 = typical', 'network x 2', 'data_loading x 0.5'"


@dataclass(frozen=True, slots=True)
class Saving:
    """What a fix returns: the predicted step, and what that is less than now. `error_share`: of the replay itself."""

    fix: str
    step_ns: int
    saved_ns: int
    saved_share: float  # of the replayed step
    error_share: float  # how far the unchanged replay is from what was measured


def saving(job: Job, fix: str, unchanged_ns: float, error_share: float) -> Saving:
    """Replay the job with one fix. BadSelection for what the grammar or the job does not know."""
    after = step_ns(job, changed(job, fix))
    saved = unchanged_ns - after
    return Saving(fix, round(after), round(saved), saved / unchanged_ns if unchanged_ns else 0.0, error_share)


def changed(job: Job, fix: str) -> Ints:
    """The durations after a fix."""
    matched = _GRAMMAR.match(fix)
    if not matched:
        raise BadSelection(f"{fix!r} is no fix, {HELP}")
    target, middle, factor = matched[1], matched[2], matched[3]
    if target == "network":
        if middle or not float(factor):
            raise BadSelection(f"{fix!r}: the network's bandwidth is multiplied by a number above 0")
        return np.asarray(np.where(job.together, np.rint(job.ns / float(factor)), job.ns), np.int64)
    chosen = _chosen(job, target)
    scaled = np.rint(job.ns * float(factor or 1)).astype(np.int64)
    new = {"typical": job.typical, "balanced": job.ideal}.get(middle, scaled)
    return np.asarray(np.where(chosen, new, job.ns), np.int64)


def _chosen(job: Job, target: str) -> Bools:
    """The operations a target means: a place's own work, or a kind."""
    if target in ("all", "communication"):
        return job.together if target == "communication" else ~job.together
    matched = _PLACE.match(target)
    if matched:
        number = int(matched[2])
        of: Callable[[int], int | None] = (
            (lambda i: job.workers[i].rank) if matched[1] == "rank" else (lambda i: job.workers[i].stage)
        )
        mine = [i for i in range(len(job.workers)) if of(i) == number]
        if not mine:
            raise BadSelection(f"the job has no {target}")
        return np.isin(job.worker, mine) & ~job.together
    if target in job.kinds:
        return np.asarray(job.kind == list(job.kinds).index(target), np.bool_)
    raise BadSelection(
        f"the job has no {target!r}; it has ranks, stages, all, network, communication, {', '.join(sorted(job.kinds))}"
    )


def usual(job: Job, slowest: str | None) -> list[str]:
    """The fixes worth trying on any job."""
    rank = next((worker.rank for worker in job.workers if worker.name == slowest), None)
    fixes = [f"rank {rank} = typical"] if rank is not None and len(job.workers) > 1 else []
    fixes += ["all = balanced"] if len(job.workers) > 1 else []
    fixes += ["network x 2", "communication x 0"] if job.together.any() else []
    took = {kind for number, kind in enumerate(job.kinds) if job.ns[job.kind == number].any()}
    return fixes + [f"{kind} x 0" for kind in ("data_loading", "checkpoint", "host", "idle") if kind in took]
