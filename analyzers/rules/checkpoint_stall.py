"""Training stops while a checkpoint is saved or loaded.

Why it matters: a synchronous checkpoint holds every rank as long as the slowest one writes.
How it is measured: time in which the device is idle, the host has not asked for work, and the training thread is inside
a checkpoint range (torch.save, torch.distributed.checkpoint save, load or async_save); summed over the usable steps,
divided by their number, on the rank where it is largest. Without a trace: the pulse's stage `checkpoint`, in which the
training thread is inside such a call.
What to do: torch.distributed.checkpoint.async_save, sharded instead of gathered state, a faster or local target, less
often.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from rankscope.analyzers.analysis import Analysis
from rankscope.analyzers.findings import CannotTell, Evidence, Finding, MissingSignal
from rankscope.analyzers.pricing import of_the_step, step_share, time_finding
from rankscope.analyzers.pulse.either import either
from rankscope.analyzers.pulse.pulse import Pulse
from rankscope.analyzers.pulse.tables import STAGES

TITLE = "Checkpoint stall"
TRIGGER_SHARE = 0.01  # of the run (ours): a stall of 1 % is a day in a hundred
READS = ("traces", "pulse")
RECORD = "with torch.profiler.record_function('torch.save'): torch.save(state, path)"


def check(analysis: Analysis) -> Iterable[Finding]:
    """Report the checkpoint time of the rank that has most."""
    return either(analysis, by_traces, by_pulse)


def by_traces(analysis: Analysis) -> Iterator[Finding]:
    """As traces show it."""
    if not any(record.facts.has_checkpoint for record in analysis.records):
        raise MissingSignal("no checkpoint range was recorded", RECORD)
    spent = analysis.part("checkpoint_ns")
    if not spent.size:
        return
    by_place = np.nansum(spent, axis=1)
    cost = float(by_place.max()) / spent.shape[1]
    if step_share(analysis, cost) <= TRIGGER_SHARE:
        return
    place = analysis.places[int(by_place.argmax())]
    stalled = int((np.nan_to_num(spent[int(by_place.argmax())]) > 0).sum())
    examples = analysis.exemplars("checkpoint")
    yield time_finding(
        analysis,
        message=f"Checkpoints hold training up {of_the_step(analysis, cost)} on average.",
        cost_ns=cost,
        evidence=[
            Evidence("exposed checkpoint time over all usable steps", round(float(by_place.max())), "ns", examples),
            Evidence("steps with a stall", stalled, "count"),
            Evidence("rank with most", place.rank, "count"),
        ],
        advice=(
            "Save asynchronously (torch.distributed.checkpoint.async_save), sharded, to a faster target, or less often."
        ),
        where=f"In {examples[0].name}." if examples else "In a checkpoint range.",
    )


def by_pulse(pulse: Pulse) -> Iterator[Finding]:
    """As the pulse alone shows it."""
    if not len(pulse.usable):
        raise CannotTell("the ranks' pulses have no step in common")
    spent = np.nan_to_num(pulse.stage_ns[:, pulse.usable, STAGES.index("checkpoint")])
    by_rank = spent.sum(axis=1)
    worst = int(by_rank.argmax())
    cost = float(by_rank[worst]) / spent.shape[1]
    if step_share(pulse, cost) <= TRIGGER_SHARE:
        return
    stalled = int((spent[worst] > 0).sum())
    yield time_finding(
        pulse,
        message=f"Checkpoints hold training up {of_the_step(pulse, cost)} on average.",
        cost_ns=cost,
        evidence=[
            Evidence("checkpoint time over all judged steps", round(float(by_rank[worst])), "ns"),
            Evidence("steps with a stall", stalled, "count"),
            Evidence("longest stall", round(float(spent[worst].max())), "ns"),
            Evidence("rank with most", pulse.ranks[worst], "count"),
            Evidence("stage", "checkpoint", "text"),
        ],
        advice=(
            "Save asynchronously (torch.distributed.checkpoint.async_save), sharded, to a faster target, or less often."
        ),
        where=f"In {stalled} of {spent.shape[1]} judged steps of rank {pulse.ranks[worst]}.",
    )
