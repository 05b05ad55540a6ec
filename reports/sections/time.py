"""Where the time went: a stacked bar per rank, and the same as figures."""

from __future__ import annotations

from rankscope.analyzers.findings import Diagnosis
from rankscope.analyzers.quantities import plural
from rankscope.reports.blocks import Bar, Bars, Block, Cell, Column, Grid, Part, Quantity, Section, Text
from rankscope.reports.buckets import BUCKETS
from rankscope.reports.rank_time import FEW, RankTime, labels, mean_of, named_by, rank_times, row_key, standing_out

ORDER = 20


def build(diagnosis: Diagnosis) -> Section | None:
    """None without a single row."""
    times = rank_times(diagnosis)
    if not times:
        return None
    blocks: list[Block] = [_bars(diagnosis, times), _figures(times)]
    outside = _outside(diagnosis)
    if outside is not None:
        blocks.append(outside)
    if any(row.device is None for row in diagnosis.attribution):
        blocks.append(
            Text("Ranks without a device have no idle time: what is not accounted for is called: host, other.", "muted")
        )
    return Section("time", "Where the time went", tuple(blocks), _lead(times))


def _lead(times: list[RankTime]) -> str:
    steps = sorted({time.steps for time in times})
    if steps == [0]:
        return "No step marks: the whole capture of each rank. Every nanosecond is in exactly one part."
    counted = plural(steps[-1], "judged step") if len(steps) == 1 else f"{steps[0]} to {steps[-1]} judged steps"
    return f"The mean of {counted} per rank. Every nanosecond is in exactly one part."


def _bars(diagnosis: Diagnosis, times: list[RankTime]) -> Bars:
    named = named_by(diagnosis)
    if len(times) <= FEW:
        return Bars("", tuple(_bar(time, named.get(time.rank, "")) for time in times))
    reasons = standing_out(diagnosis, times)
    rest = [time for i, time in enumerate(times) if i not in reasons]
    lead = tuple(_bar(times[i], reason) for i, reason in reasons.items())
    mean = _bar(mean_of(f"{len(rest)} others", rest)) if rest else None
    return Bars("", lead, tuple(_bar(time) for time in rest), mean)


def _bar(time: RankTime, why: str = "") -> Bar:
    parts = tuple(Part(bucket.key, time.buckets[bucket.key]) for bucket in BUCKETS if time.buckets[bucket.key])
    return Bar(time.label, parts, time.window_ns, why)


def _figures(times: list[RankTime]) -> Grid:
    used = [bucket for bucket in BUCKETS if any(time.buckets[bucket.key] for time in times)]
    columns = (
        Column("rank", numeric=False),
        Column("window", doc="the step as the device saw it"),
        *(Column(bucket.label, doc=bucket.doc) for bucket in used),
    )
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (
            time.label,
            Quantity(time.window_ns, "ns"),
            *(Quantity(time.buckets[bucket.key], "ns") for bucket in used),
        )
        for time in times
    )
    return Grid("All parts, per rank", columns, rows, brief=0, folded=True)


def _outside(diagnosis: Diagnosis) -> Grid | None:
    """What lies before the first step and after the last."""
    rows: list[tuple[Cell, ...]] = []
    label = labels(diagnosis.attribution)
    for row in diagnosis.attribution:
        if row.step in ("before", "after"):
            parts = (row.compute_ns, row.communication_ns, row.io_ns, row.host_ns, row.idle_ns)
            named = label[row_key(row)]
            rows.append((named, str(row.step), Quantity(row.window_ns, "ns"), *(Quantity(ns, "ns") for ns in parts)))
    if not rows:
        return None
    titles = ("window", "compute", "communication", "input/output", "host", "idle")
    columns = (Column("rank", False), Column("when", False), *(Column(title) for title in titles))
    return Grid("Before the first step and after the last", columns, tuple(rows), brief=0, folded=True)
