"""Losses or gradients are no numbers, or the gradient scaler skips many steps.

Why it matters: a loss that is not a number never comes back, and a skipped step is a step paid for that taught nothing.
How it is measured: logged values that are not finite, from the pulse; steps that the gradient scaler left out, over the
steps done. A dynamic loss scale probes its limit and skips now and then: torch.amp.GradScaler doubles its scale every
2,000 steps, so that about one step in 2,000 is skipped by design.
What to do: resume from a checkpoint before the first such step; bf16 instead of fp16, clip gradients, warm the learning
rate up, look at the batch of that step.
"""

from __future__ import annotations

from collections.abc import Iterator

from rankscope.analyzers.analysis import Analysis
from rankscope.analyzers.findings import Evidence, Finding, MissingSignal
from rankscope.analyzers.pricing import unpriced
from rankscope.analyzers.pulse.either import RECORD, recording_of
from rankscope.analyzers.pulse.job import job_report
from rankscope.analyzers.pulse.measured import JobReport
from rankscope.analyzers.pulse.model import Recording
from rankscope.analyzers.quantities import count, plural, share, spans

TITLE = "Overflow"
SKIPPED_SHARE = 0.01  # of the steps (ours): twenty times what a dynamic loss scale skips by design
LEAST_SKIPPED = 5  # skipped steps (ours): a new scale begins too high and skips some at the start
READS = ("pulse",)


def check(analysis: Analysis) -> Iterator[Finding]:
    """Report values that are no numbers, and skipped steps beyond what is usual."""
    recording = recording_of(analysis.run)
    if analysis.pulse is None:
        raise MissingSignal("no rank recorded a step", RECORD)
    job = job_report(recording)
    steps = max((end.steps for end in job.ends), default=0)
    skipped = job.skipped_steps / steps if steps else 0.0
    many = job.skipped_steps >= LEAST_SKIPPED and skipped > SKIPPED_SHARE
    if not job.not_finite and not many:
        return
    ranks, first = _where(recording)
    parts = [f"{name} was not a finite number {count(n)} times" for name, n in job.not_finite.items()]
    if many:
        parts.append(f"{plural(job.skipped_steps, 'step')} of {count(steps)} were skipped ({share(skipped)})")
    yield unpriced(
        analysis.pulse,
        "risk",
        "critical" if job.not_finite else "warning",
        message=f"{_sentence(parts)}{'' if first is None else f', first in step {first}'}.",
        evidence=_evidence(job, skipped),
        advice="Go back to a checkpoint before the first such step; then bf16, gradient clipping, or a longer warm-up.",
        where=f"On rank{'s' * (len(ranks) > 1)} {spans(ranks)}." if ranks else "",
        expected="Every step teaches something.",
    )


def _sentence(parts: list[str]) -> str:
    text = "; ".join(parts)
    return text[0].upper() + text[1:]


def _evidence(job: JobReport, skipped: float) -> list[Evidence]:
    found = [Evidence(f"{name}: values that are not finite", n, "count") for name, n in job.not_finite.items()]
    return [
        *found,
        Evidence("skipped steps", job.skipped_steps, "count"),
        Evidence("of all steps", skipped, "share"),
        Evidence("loss scale lowered", job.overflows, "count"),
    ]


def _where(recording: Recording) -> tuple[list[int], int | None]:
    """Ranks that saw it, and the first step."""
    ranks, steps = set(), []
    for process in recording.all:
        for event in process.events:
            if event.kind in ("not_finite", "overflow", "skipped_step"):
                ranks.add(process.rank)
                told = event.what.get("of_step", event.step)
                steps += [told] if isinstance(told, int) else []
    return sorted(ranks), min(steps, default=None)
