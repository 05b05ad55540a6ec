"""Since some step training is slower than before, and stays so.

Why it matters: a device that throttles, a disk that fills, a neighbour that moved in: the run goes on, only slower, and an
average over it hides since when. Weeks of training are lost this way before anyone looks.
How it is measured: the step times, the median over ranks, are cut in two where the sides differ most, spikes taken out, and
each side again, as long as the difference is beyond chance (analyzers/series/changes.py). Reported is a step that is 10 %
longer than before since the last change, and no such change was taken back. The cost is the difference of the two medians.
With the pulse, the rank and stage whose own time grew by most of it, in more steps than chance allows, is named.
What to do: look at what happened to that rank, or to all, at that step: clocks and temperature, other jobs, storage,
longer sequences, a new phase of the training schedule.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from rankscope.analyzers.analysis import Analysis
from rankscope.analyzers.findings import Evidence, Finding, MissingSignal
from rankscope.analyzers.persistence import Persistence, persistence
from rankscope.analyzers.pricing import Judged, of_the_step, time_finding
from rankscope.analyzers.pulse.pulse import Pulse
from rankscope.analyzers.pulse.tables import STAGES
from rankscope.analyzers.quantities import duration
from rankscope.analyzers.series.changes import LEAST_STEPS, Change, changes
from rankscope.analyzers.series.spikes import Floats, warm_up

TITLE = "Slower since a step"
TRIGGER_SHARE = 0.10  # of the step before; source: the shift that Greyhound's change points have to have
MOST_OF_IT = 0.5  # of the change, that the named rank's stage has to explain (ours)
READS = ("traces", "pulse")
RECORD = "rankscope run -- torchrun ... train.py  # records every step, at some hundred bytes"


@dataclass(frozen=True, slots=True)
class Grown:
    """The rank and stage whose own time grew with the step."""

    rank: int
    stage: str
    ns: float


def check(analysis: Analysis) -> Iterable[Finding]:
    """Report the change since which the step is longer."""
    pulse = analysis.pulse
    if pulse is not None and len(pulse.usable):
        times = np.median(pulse.wall_ns[:, pulse.usable], axis=0)
        return _slower(pulse, [int(n) for n in pulse.numbers[pulse.usable]], times, pulse)
    judged = set(analysis.steps)
    steps = {n: ns for n, ns in analysis.whole_steps().items() if n in judged}
    return _slower(analysis, list(steps), np.array(list(steps.values())), None)


def _slower(judged: Judged, numbers: list[int], times: Floats, pulse: Pulse | None) -> Iterator[Finding]:
    skipped = warm_up(times)
    if len(times) - skipped < 2 * LEAST_STEPS:
        raise MissingSignal(f"a change needs {2 * LEAST_STEPS} steps or more to be told from chance", RECORD)
    found = changes(times[skipped:])
    if not found:
        return
    last = found[-1]
    before = min(change.before_ns for change in found)
    if last.after_ns / before - 1 < TRIGGER_SHARE or last.share <= 0:
        return
    at, cost = last.at + skipped, last.after_ns - last.before_ns
    grown = _grown(pulse, at, cost) if pulse is not None else None
    named = f" on rank {grown.rank}, in its {grown.stage} stage" if grown else ""
    yield time_finding(
        judged,
        message=f"Since step {numbers[at]} a step takes {duration(last.after_ns)} instead of "
        f"{duration(last.before_ns)}{named}.",
        cost_ns=cost,
        evidence=_evidence(numbers, at, last, grown, len(found)),
        advice=(
            "Look at what changed then: clocks, temperature and throttling of the devices, other jobs on the hosts, storage, "
            "sequence lengths, and the training schedule."
        ),
        where=f"From step {numbers[at]} to the end, {len(times) - at} judged steps: {of_the_step(judged, cost)}.",
        ranks=[grown.rank] if grown else [],
        sure=0.9 if grown or pulse is None else 0.8,
    )


def _evidence(numbers: list[int], at: int, change: Change, grown: Grown | None, times: int) -> list[Evidence]:
    found = [
        Evidence("first slower step", numbers[at], "count"),
        Evidence("step before", round(change.before_ns), "ns"),
        Evidence("step since", round(change.after_ns), "ns"),
        Evidence("longer by", change.share, "share"),
        Evidence("beyond the noise, standard deviations", round(change.score, 1), "count"),
        Evidence("lasting changes in the run", times, "count"),
    ]
    if grown:
        found.append(Evidence(f"own time of rank {grown.rank} in {grown.stage} grew by, a step", round(grown.ns), "ns"))
    return found


def _grown(pulse: Pulse, at: int, cost: float) -> Grown | None:
    """The rank and stage whose own time grew by most of the change, persistently, and more than any other rank's."""
    if len(pulse.ranks) < 2 or pulse.doubt:
        return None
    own = pulse.local_ns  # (rank, judged step, stage)
    usual = np.median(own[:, :at], axis=1, keepdims=True)
    growth = np.median(own[:, at:] - usual, axis=1)
    lane, stage = np.unravel_index(int(growth.argmax()), growth.shape)
    others = np.delete(growth, lane, axis=0).max()
    if growth[lane, stage] < MOST_OF_IT * cost or others > growth[lane, stage] * (1 - MOST_OF_IT):
        return None
    more = (own[:, at:] - usual)[:, :, stage]
    lead = more[lane] - np.delete(more, lane, axis=0).max(axis=0)
    if persistence(lead, pulse.step_ns, len(pulse.ranks)) is not Persistence.TESTED:
        return None
    return Grown(pulse.ranks[int(lane)], STAGES[int(stage)], float(growth[lane, stage]))
