"""Stages: a bar per rank of what its step is made of by the pulse, the frontier, and own time rank by step."""

from __future__ import annotations

from rankscope.analyzers.findings import Diagnosis
from rankscope.analyzers.pulse.measured import LoggedSummary, PulseReport, StageTime
from rankscope.analyzers.quantities import duration, plural, significant
from rankscope.reports.blocks import Bar, Bars, Block, Cell, Column, Grid, Heatmap, Name, Part, Quantity, Section, Text
from rankscope.reports.rank_time import FEW, LEADING, named_by

ORDER = 25
BUCKET_OF = {
    "data": "data_loading",
    "host_to_device": "host_to_device",
    "forward": "forward",
    "backward": "backward",
    "optimizer": "optimizer",
    "checkpoint": "checkpoint",
    "other": "other",
}
_STAGES = (
    Column("rank", numeric=False),
    Column("stage", numeric=False),
    Column("median", doc="of the training thread's time in it"),
    Column("blocked", doc="of that, in collectives"),
    Column("no processor", doc="of that, ready to run while others had its cores"),
    Column("own", doc="without either"),
    Column("device", doc="between the device events around it"),
)
_FRONTIER = (
    Column("rank", numeric=False),
    Column("stage", numeric=False),
    Column("of the step", doc="how far the furthest rank's own time moves in this stage, mean over the judged steps"),
    Column("share"),
    Column("beyond its peers", doc="of that, own time in the stage beyond the median of its peers'"),
    Column("furthest in", doc="judged steps"),
)
_LOGGED = (
    Column("logged", numeric=False),
    Column("first"),
    Column("last"),
    Column("least"),
    Column("most"),
    Column("not finite", doc="values that were no numbers, or infinite"),
)


def build(diagnosis: Diagnosis) -> Section | None:
    """None without a pulse."""
    pulse = diagnosis.pulse
    if pulse is None:
        return None
    blocks: list[Block] = []
    if pulse.stages:
        blocks += [_bars(diagnosis, pulse), *_map(diagnosis, pulse)]
    if pulse.frontier:
        blocks += [_frontier(pulse), Text(_frontier_note(pulse), "muted")]
    if pulse.doubt:
        blocks.append(Text(f"Own time is not told from waiting: {pulse.doubt}.", "caution"))
    if pulse.stages:
        blocks.append(_figures(pulse))
    if pulse.logged:
        blocks.append(Grid("Logged by the training code", _LOGGED, tuple(map(_logged, pulse.logged)), brief=6))
    return Section("stages", "Stages of the step", tuple(blocks), _lead(pulse))


def _lead(pulse: PulseReport) -> str:
    if not pulse.judged_steps:
        return "The ranks' pulses have no step in common."
    judged = plural(pulse.judged_steps, "judged step")
    thinned = f", every {pulse.every}th recorded one" if pulse.every > 1 else ""
    return f"From the pulse: medians over {judged}{thinned}. Waits are the training thread's, blocked in collectives."


def _bars(diagnosis: Diagnosis, pulse: PulseReport) -> Bars:
    named = named_by(diagnosis)
    bars = {rank: _bar(rank, _of(pulse, rank), named.get(rank, "")) for rank in pulse.ranks}
    if len(bars) <= FEW:
        return Bars("", tuple(bars.values()))
    own = {rank: sum(stage.local_ns or 0 for stage in _of(pulse, rank)) for rank in pulse.ranks}
    leading = sorted(pulse.ranks, key=lambda rank: (rank not in named, -own[rank], rank))[:LEADING]
    rest = [rank for rank in pulse.ranks if rank not in leading]
    return Bars("", tuple(bars[rank] for rank in leading), tuple(bars[r] for r in rest), _mean(pulse, rest))


def _of(pulse: PulseReport, rank: int) -> list[StageTime]:
    return [stage for stage in pulse.stages if stage.rank == rank]


def _bar(rank: int, stages: list[StageTime], why: str) -> Bar:
    parts, waited, queued = [], 0, 0
    for stage in stages:
        wait = min(stage.wait_ns or 0, stage.median_ns)
        pushed = min(stage.queued_ns or 0, stage.median_ns - wait)
        waited, queued = waited + wait, queued + pushed
        parts.append(Part(BUCKET_OF[stage.stage], stage.median_ns - wait - pushed))
    parts += [Part("queued", queued), Part("wait", waited)]
    parts = [part for part in parts if part.ns]
    return Bar(f"rank {rank}", tuple(parts), sum(part.ns for part in parts), why)


def _mean(pulse: PulseReport, ranks: list[int]) -> Bar | None:
    if not ranks:
        return None
    sums: dict[str, float] = {}
    for rank in ranks:
        for part in _bar(rank, _of(pulse, rank), "").parts:
            sums[part.bucket] = sums.get(part.bucket, 0.0) + part.ns / len(ranks)
    parts = tuple(Part(bucket, ns) for bucket, ns in sums.items())
    return Bar(f"{len(ranks)} others", parts, sum(sums.values()))


def _map(diagnosis: Diagnosis, pulse: PulseReport) -> list[Heatmap]:
    series = pulse.series
    if series is None or len(pulse.ranks) < 2:
        return []
    told = series.local_ns or series.wall_ns
    named = named_by(diagnosis)
    ranks = [rank for rank in pulse.ranks if str(rank) in told]
    values = tuple(tuple(ns or None for ns in told[str(rank)]) for rank in ranks)
    lead = tuple(i for i, rank in enumerate(ranks) if rank in named) if len(ranks) > FEW else ()
    title = "Own time" if series.local_ns else "Length of the step"
    if series.steps_a_span > 1:
        title += f", median of {series.steps_a_span} steps"
    columns = tuple(map(str, series.first_steps))
    return [Heatmap(title, "rank", "step", tuple(f"rank {r}" for r in ranks), columns, values, lead=lead)]


def _frontier(pulse: PulseReport) -> Grid:
    whole = pulse.frontier_ns or 1
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (
            f"rank {share.rank}",
            share.stage.replace("_", " "),
            Quantity(share.ns, "ns"),
            Quantity(share.ns / whole, "share"),
            Quantity(share.beyond_ns, "ns"),
            Quantity(share.steps, "count"),
        )
        for share in pulse.frontier
    )
    return Grid("Whose stages the group's step is made of", _FRONTIER, rows, brief=5)


def _frontier_note(pulse: PulseReport) -> str:
    return (
        f"These add up to {duration(pulse.frontier_ns)}; the other {duration(pulse.rest_ns)} of the mean step are bytes that "
        "move, time without a processor, and waiting that nobody's own time explains."
    )


def _figures(pulse: PulseReport) -> Grid:
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (
            f"rank {s.rank}",
            s.stage.replace("_", " "),
            Quantity(s.median_ns, "ns"),
            Quantity(s.wait_ns, "ns"),
            Quantity(s.queued_ns, "ns"),
            Quantity(s.local_ns, "ns"),
            Quantity(s.device_ns, "ns"),
        )
        for s in pulse.stages
    )
    return Grid("All stages, per rank", _STAGES, rows, brief=0, folded=True)


def _logged(entry: LoggedSummary) -> tuple[Cell, ...]:
    figures = (entry.first, entry.last, entry.least, entry.most)
    return (Name(entry.name), *map(_number, figures), Quantity(entry.not_finite, "count"))


def _number(value: float | None) -> str:
    if value is None:
        return "n/a"
    return f"{value:.3g}" if value and not 1e-4 <= abs(value) < 1e9 else significant(value)
