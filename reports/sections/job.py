"""The job: goodput, restarts and what they cost, overflow, checkpoints, and how each rank ended."""

from __future__ import annotations

from datetime import UTC, datetime

from rankscope.analyzers.findings import Diagnosis
from rankscope.analyzers.pulse.measured import JobReport, RankEnd
from rankscope.analyzers.quantities import count, duration, plural
from rankscope.reports.blocks import Block, Cell, Column, Fact, Facts, Grid, Name, Quantity, Section

ORDER = 35
RUNNING = "no word: running, or killed"
_ENDS = (
    Column("rank", numeric=False),
    Column("attempt"),
    Column("host", numeric=False),
    Column("ended", numeric=False),
    Column("steps"),
    Column("last sign of life", numeric=False),
)


def build(diagnosis: Diagnosis) -> Section | None:
    """None without a run directory."""
    job = diagnosis.job
    if job is None:
        return None
    blocks: list[Block] = [Facts(tuple(_facts(job)))]
    unusual = [end for end in job.ends if end.ended != "finished"]
    if unusual:
        blocks.append(Grid("Ranks that did not finish", _ENDS, tuple(map(_end, unusual)), brief=8))
    return Section("job", "The job", tuple(blocks), _lead(job))


def _lead(job: JobReport) -> str:
    ranks = {end.rank for end in job.ends}
    attempts = f", {plural(job.attempts, 'attempt')}" if job.attempts > 1 else ""
    return f"Over {plural(len(ranks), 'rank')}{attempts}."


def _facts(job: JobReport) -> list[Fact]:
    facts = [
        Fact("goodput", Quantity(job.goodput_share, "share"), "whole steps, not lost, without checkpoints, of the wall time"),
        Fact("wall time", Quantity(job.wall_ns, "ns"), "from the first start to the last sign of life"),
        Fact("restarts", Quantity(job.restarts, "count"), f"{plural(job.lost_steps, 'step')} lost to them"),
    ]
    if job.skipped_steps or job.overflows:
        facts.append(Fact("skipped steps", Quantity(job.skipped_steps, "count"), f"{plural(job.overflows, 'overflow')}"))
    if job.not_finite:
        names = ", ".join(f"{name} {count(n)}x" for name, n in list(job.not_finite.items())[:4])
        facts.append(Fact("not finite", Quantity(sum(job.not_finite.values()), "count"), names))
    note = f"{duration(job.checkpoint_ns)} of the training thread" if job.checkpoints else ""
    if job.checkpoint_age_ns is not None:
        note += f"; the last was {duration(job.checkpoint_age_ns)} old at the end"
    facts.append(Fact("checkpoints", Quantity(job.checkpoints, "count"), note))
    return facts


def _end(end: RankEnd) -> tuple[Cell, ...]:
    return (
        f"rank {end.rank}",
        Quantity(end.attempt, "count"),
        Name(end.host) if end.host else "unknown",
        Name(end.ended) if end.ended else RUNNING,
        Quantity(end.steps, "count"),
        _when(end.last_unix_ns),
    )


def _when(unix_ns: int | None) -> str:
    if unix_ns is None:
        return "never"
    try:
        return datetime.fromtimestamp(unix_ns / 1e9, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, OSError, ValueError):
        return "not recorded"
