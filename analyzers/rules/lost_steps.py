"""Restarts made the job do steps again that it had done before.

Why it matters: whatever was done since the last checkpoint is paid for twice, on every device at once; with the time
that starting takes it is what goodput falls short by.
How it is measured: for each attempt that did not finish, the steps after its last checkpoint, on the rank that came
furthest; goodput is the wall time of whole steps, without checkpoints and without those lost steps, over the time from
the first start to the last sign of life.
What to do: save more often, and asynchronously, so that a checkpoint costs less than what it saves: about
sqrt(2 x the cost of a checkpoint x the mean time between failures) apart (Young 1974). Then look at what ends the
attempts.
"""

from __future__ import annotations

from collections.abc import Iterator

from rankscope.analyzers.analysis import Analysis
from rankscope.analyzers.findings import Evidence, Finding, MissingSignal, Severity
from rankscope.analyzers.pricing import unpriced
from rankscope.analyzers.pulse.either import RECORD, recording_of
from rankscope.analyzers.pulse.job import job_report
from rankscope.analyzers.quantities import duration, plural, share

TITLE = "Lost steps"
WARNING_SHARE = 0.01  # of the wall time (ours): a day in a hundred, as for checkpoint-stall
CRITICAL_SHARE = 0.1  # of the wall time (ours)
READS = ("pulse",)


def check(analysis: Analysis) -> Iterator[Finding]:
    """Report steps that restarts cost."""
    job = job_report(recording_of(analysis.run))
    if analysis.pulse is None:
        raise MissingSignal("no rank recorded a step", RECORD)
    if not job.lost_steps:
        return
    lost = job.lost_steps * analysis.pulse.step_ns
    of_wall = lost / job.wall_ns if job.wall_ns else 0.0
    grade: Severity = "critical" if of_wall >= CRITICAL_SHARE else "warning" if of_wall >= WARNING_SHARE else "note"
    evidence = [
        Evidence("lost steps", job.lost_steps, "count"),
        Evidence("their time", round(lost), "ns"),
        Evidence("restarts", job.restarts, "count"),
        Evidence("checkpoints", job.checkpoints, "count"),
    ]
    if job.goodput_share is not None:
        evidence.append(Evidence("goodput", job.goodput_share, "share"))
    yield unpriced(
        analysis.pulse,
        "risk",
        grade,
        message=(
            f"{plural(job.restarts, 'restart')} cost {plural(job.lost_steps, 'step')}, {duration(lost)} or "
            f"{share(of_wall)} of the job's time."
        ),
        evidence=evidence,
        advice="Save more often and asynchronously (torch.distributed.checkpoint.async_save); see how the attempts ended.",
        where=f"In {plural(job.attempts, 'attempt')}; the section on the job lists how their ranks ended.",
        expected="Goodput rises by at most what the lost steps took.",
    )
