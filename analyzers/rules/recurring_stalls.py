"""Every so many steps one takes far longer than the others.

Why it matters: what comes regularly has a cause that can be found and moved: a checkpoint, an evaluation, garbage
collection, logging to a remote disk. Averages hide it, since most steps are fine.
How it is measured: steps above the running median by four standard deviations and 5 % of it are spikes; at least four of
them, nine of ten at equal distances, have a period. The cost is what they take above the running median, spread over all
steps. A spike that is a checkpoint in every case is left to `checkpoint-stall`.
What to do: find what the code does every so many steps; do it less often, in another process, or asynchronously.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from rankscope.analyzers.analysis import Analysis
from rankscope.analyzers.findings import Evidence, Finding, MissingSignal
from rankscope.analyzers.pricing import SILENT, Judged, of_the_step, step_share, time_finding
from rankscope.analyzers.pulse.pulse import Pulse
from rankscope.analyzers.pulse.tables import STAGES
from rankscope.analyzers.quantities import count, duration
from rankscope.analyzers.series.spikes import WINDOW, Bools, Floats, period, spikes, warm_up

TITLE = "Recurring stalls"
MOSTLY = 0.5  # of a spike's excess in one stage: it is that stage's (ours)
READS = ("traces", "pulse")
RECORD = "rankscope run -- torchrun ... train.py  # records every step, at some hundred bytes"


def check(analysis: Analysis) -> Iterable[Finding]:
    """Report spikes that come regularly."""
    pulse = analysis.pulse
    if pulse is not None and len(pulse.usable):
        times = np.median(pulse.wall_ns[:, pulse.usable], axis=0)
        return _recurring(pulse, np.asarray(pulse.numbers[pulse.usable]), times, pulse)
    judged = set(analysis.steps)
    steps = {n: ns for n, ns in analysis.whole_steps().items() if n in judged}
    return _recurring(analysis, np.array(list(steps), np.int64), np.array(list(steps.values())), None)


def _recurring(
    judged: Judged, numbers: np.ndarray[tuple[int], np.dtype[np.int64]], times: Floats, pulse: Pulse | None
) -> Iterator[Finding]:
    skipped = warm_up(times)
    if len(times) - skipped < WINDOW:
        raise MissingSignal(f"a period needs {WINDOW} steps or more", RECORD)
    found = spikes(times)
    found[:skipped] = False
    regular = period(numbers, times, found)
    if regular is None:
        return
    cost = regular.excess_ns * int(found.sum()) / len(times)
    stage = _stage(pulse, found) if pulse is not None else None
    if step_share(judged, cost) < SILENT or stage == "checkpoint":
        return
    yield time_finding(
        judged,
        message=f"Every {regular.steps} steps one takes {duration(regular.excess_ns)} longer"
        + (f", in its {stage} stage." if stage else "."),
        cost_ns=cost,
        evidence=[
            Evidence("steps from one to the next", regular.steps, "count"),
            Evidence("seen so many times", regular.times, "count"),
            Evidence("each takes longer by", round(regular.excess_ns), "ns"),
            Evidence("spread over all steps", round(cost), "ns"),
            Evidence("the last of them, step", int(numbers[np.flatnonzero(found)[-1]]), "count"),
        ],
        advice=(
            f"Find what the training code does every {count(regular.steps)} steps (evaluation, logging, garbage collection, "
            "cache clearing), and do it less often, asynchronously or elsewhere."
        ),
        where=f"In {count(int(found.sum()))} of {count(len(times))} judged steps: {of_the_step(judged, cost)} on average.",
    )


def _stage(pulse: Pulse, found: Bools) -> str | None:
    """The stage that most of the spikes' excess lies in, by the median over ranks."""
    stages = np.median(np.nan_to_num(pulse.stage_ns[:, pulse.usable]), axis=0)  # (step, stage)
    excess = stages[found].mean(axis=0) - np.median(stages[~found], axis=0)
    largest = int(excess.argmax())
    return STAGES[largest] if excess[largest] > MOSTLY * max(float(excess.sum()), 1.0) else None
