"""Naming a rank from the pulse alone: who is persistently alone at the frontier, in which stage, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from rankscope.analyzers.causes import COVERS
from rankscope.analyzers.findings import CannotTell, Cause, MissingSignal
from rankscope.analyzers.persistence import Persistence, persistence, steps_needed
from rankscope.analyzers.pulse.frontier import Bools, Floats, Frontier, frontier
from rankscope.analyzers.pulse.hardware import Hardware
from rankscope.analyzers.pulse.pulse import Pulse
from rankscope.analyzers.pulse.tables import STAGES
from rankscope.analyzers.quantities import plural, ranks, share

# Of the step without time in the run queue. Own time is a thread's, which what runs beside it stretches through caches,
# clocks and, where the run queue is not known, cores.
COARSE: Final = 0.05
# Of the judged steps, by at least half of COARSE (ours): of 20 healthy pairs on two crowded cores one led so in 17 of 23
# steps, the others in 15 at most; of 32 planted delays of 10 to 50 % all led so in 19 of 23 or more.
LEADS: Final = 0.8
PARTS: Final = 4  # of the run, in each of which the rank has to lead: who is slow for a while is not slow
FEWEST: Final = 3  # judged steps in a part, else the run is not divided
CAUSES: Final[dict[str, Cause]] = {
    "data": "data",
    "host_to_device": "data",
    "forward": "compute",
    "backward": "compute",
    "optimizer": "compute",
    "checkpoint": "host",
    "other": "host",
}
RECORD: Final = "rankscope run -- torchrun ... train.py  # records the pulse of every rank"


@dataclass(frozen=True, slots=True)
class LateRank:
    """One rank at the frontier. `cost_ns`: what it alone adds to the judged step; `excess_ns`: by stage, its own time
    beyond the median of its peers' (medians over steps).
    """

    rank: int
    cost_ns: float
    leads: int
    excess_ns: dict[str, float]
    stage: str | None
    cause: Cause
    gc_ns: float | None
    queued_ns: float | None  # a step, ready to run without a processor
    sm_clock_share: float | None  # its SM clock over the median of its peers'
    tested: bool

    def stage_excess_ns(self) -> float:
        """The excess of the stage it is late in; 0 where none is named."""
        return self.excess_ns[self.stage] if self.stage else 0.0


def late_rank(pulse: Pulse, hardware: Hardware) -> LateRank | None:
    """The rank that persistently delays the group, or None. MissingSignal, CannotTell: why the pulse cannot say."""
    if len(pulse.ranks) < 2:
        if pulse.recording.world_size < 2:
            return None
        raise MissingSignal(
            "the pulse of one rank only was recorded, so nobody can be seen waiting for another", RECORD
        )
    if not len(pulse.usable):
        raise CannotTell("the ranks' pulses have no step in common")
    if pulse.doubt:
        raise CannotTell(pulse.doubt)
    own = pulse.local_ns
    leader = _leader(pulse, pulse.frontier)
    if leader is None and pulse.queued_ns is not None and len({p.manifest.host for p in pulse.processes}) > 1:
        own = pulse.pushed_ns  # one host's processes share its cores: between them it is chance who is pushed aside
        pushed = _leader(pulse, frontier(own, pulse.meets))
        leader = pushed if pushed is not None and _is_pushed(pulse, pushed) else None
    if leader is None:
        _alike(pulse)
        return None
    if leader.persists is Persistence.TOO_FEW:
        needed = steps_needed(len(pulse.ranks))
        raise CannotTell(
            f"{plural(leader.lead_ns.size, 'judged step')} cannot tell a slow rank from chance: record {needed} steps or more"
        )
    return _named(pulse, hardware, leader, own)


@dataclass(frozen=True, slots=True)
class _Leader:
    """The lane that leads the frontier in most steps, by enough and throughout the run."""

    lane: int
    cost_ns: float
    lead_ns: Floats
    persists: Persistence


def _leader(pulse: Pulse, found: Frontier) -> _Leader | None:
    alone = found.alone_ns
    worst = int(np.bincount(alone.argmax(axis=0)[alone.max(axis=0) > 0], minlength=len(alone)).argmax())
    others = np.delete(alone, worst, axis=0).max(axis=0)
    lead = np.where(alone[worst] > others, alone[worst], -1.0)
    cost = float(np.median(alone[worst]))
    persists = persistence(lead, pulse.step_ns, len(pulse.ranks))
    enough = COARSE * pulse.unqueued_step_ns
    if cost < enough or persists is Persistence.NONE or not _throughout(lead > enough / 2):
        return None
    return _Leader(worst, cost, lead, persists)


def _is_pushed(pulse: Pulse, leader: _Leader) -> bool:
    """Whether waiting for a processor is what makes it late."""
    assert pulse.queued_ns is not None
    totals = np.median(pulse.queued_ns.sum(axis=2), axis=1)
    return bool(totals[leader.lane] - np.median(np.delete(totals, leader.lane)) >= COVERS * leader.cost_ns)


def _throughout(leads: Bools) -> bool:
    """Whether the rank leads in nearly all steps, and in most of every part of the run."""
    if leads.mean() < LEADS:
        return False
    if len(leads) < PARTS * FEWEST:
        return True
    return all(2 * int(part.sum()) > len(part) for part in np.array_split(leads, PARTS))


def excess(own_ns: Floats, lane: int) -> dict[str, float]:
    """By stage, the rank's own time beyond the median of its peers', the median over judged steps."""
    peers = np.median(np.delete(own_ns, lane, axis=0), axis=0)
    return {stage: float(more) for stage, more in zip(STAGES, np.median(own_ns[lane] - peers, axis=0), strict=True)}


def _alike(pulse: Pulse) -> None:
    """CannotTell where several ranks are late alike, so that the frontier passes from one to the other."""
    if pulse.on_device:
        raise CannotTell(
            "no rank is late in data loading, the optimizer or checkpoints; on a device the pulse does not split what it "
            "does in forward and backward from waiting: record a window of the profiler"
        )
    behind = [sum(excess(pulse.local_ns, lane).values()) for lane in range(len(pulse.ranks))]
    late = [rank for rank, ns in zip(pulse.ranks, behind, strict=True) if ns >= COARSE * pulse.unqueued_step_ns]
    if 2 <= len(late) <= len(pulse.ranks) // 2:
        raise CannotTell(
            f"{ranks(late)} are each at least {share(COARSE)} of the step behind the others, too alike for the pulse to "
            "tell which of them delays the group"
        )


def _named(pulse: Pulse, hardware: Hardware, leader: _Leader, own: Floats) -> LateRank:
    lane, cost = leader.lane, leader.cost_ns
    more = excess(own, lane)
    stage: str | None = max(more, key=lambda name: more[name])
    if stage is not None and more[stage] < COVERS * cost:
        stage = None
    rank = pulse.ranks[lane]
    gc = _gc_excess(pulse, lane)
    queued = None if pulse.queued_ns is None else float(np.median(pulse.queued_ns[lane].sum(axis=1)))
    cause: Cause = CAUSES[stage] if stage else "unknown"
    if own is not pulse.local_ns or (gc is not None and gc >= COVERS * cost):
        cause = "host"
    elif cause == "compute":
        cause = hardware.clock_cause(rank) or cause
    return LateRank(
        rank,
        cost,
        int((leader.lead_ns > 0).sum()),
        more,
        stage,
        cause,
        gc,
        queued,
        hardware.sm_clock_share(rank),
        leader.persists is Persistence.TESTED,
    )


def _gc_excess(pulse: Pulse, lane: int) -> float | None:
    """How much longer the rank collects garbage than its peers, mean over judged steps: pauses come now and then."""
    means = pulse.gc_ns[:, pulse.usable].mean(axis=1)
    return None if np.isnan(means).any() else float(means[lane] - np.median(np.delete(means, lane)))
