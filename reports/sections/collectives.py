"""Communication by group: how much, how fast, and how much of it was waiting."""

from __future__ import annotations

from rankscope.analyzers.findings import Diagnosis
from rankscope.analyzers.measured import CollectivesReport, GroupTraffic
from rankscope.analyzers.quantities import count, plural, share, spans
from rankscope.reports.blocks import Block, Cell, Column, Grid, Name, Quantity, Section, Text

ORDER = 40
_COLUMNS = (
    Column("group", numeric=False),
    Column("ranks", numeric=False),
    Column("collective", numeric=False),
    Column("size", doc="the larger of one rank's input and output"),
    Column("count"),
    Column("wait", doc="before the last rank arrived, rank-time over all members"),
    Column("transfer", doc="after the last rank arrived, rank-time over all members"),
    Column("waiting", doc="share of the collectives' time that is waiting, not moving bytes"),
    Column("bus bandwidth", doc="while bytes move, waiting left out"),
)


def build(diagnosis: Diagnosis) -> Section | None:
    """None for a single rank that never communicates, and without traces; a multi-rank run without communication says
    so.
    """
    report = diagnosis.collectives
    if not report.by_group and not report.unmatched:
        if len(diagnosis.run.ranks) < 2 or not diagnosis.run.files:
            return None
        return Section("collectives", "Collectives", (Text("No collective was found in any rank's trace."),))
    imbalanced = any(group.imbalance is not None for group in report.by_group)
    columns = (*_COLUMNS, Column("imbalance", doc="most bytes over the mean")) if imbalanced else _COLUMNS
    rows = tuple(_row(group, imbalanced) for group in report.by_group)
    notes = tuple(Text(text, "muted") for text in _notes(report))
    blocks: tuple[Block, ...] = (Grid("", columns, rows, brief=6), *notes) if rows else notes
    return Section("collectives", "Collectives", blocks, _lead(report))


def _lead(report: CollectivesReport) -> str:
    if not report.matched:
        return "No collective could be matched across ranks: waiting cannot be told from transfer."
    return f"{plural(report.matched, 'collective')} matched across ranks. Times are rank-time: all members together."


def _row(group: GroupTraffic, imbalanced: bool) -> tuple[Cell, ...]:
    both = group.wait_ns + group.transfer_ns
    row: tuple[Cell, ...] = (
        Name(group.group),
        spans(group.ranks, 3),
        Name(group.collective),
        Quantity(group.bytes, "bytes"),
        Quantity(group.count, "count"),
        Quantity(group.wait_ns, "ns"),
        Quantity(group.transfer_ns, "ns"),
        Quantity(group.wait_ns / both if both else None, "share"),
        Quantity(group.bus_bytes_per_s, "bytes_per_s"),
    )
    return (*row, Quantity(group.imbalance, "factor")) if imbalanced else row


def _notes(report: CollectivesReport) -> list[str]:
    notes = []
    if report.unmatched:
        notes.append(f"{plural(report.unmatched, 'record')} of single ranks matched no other rank's.")
    if report.inferred:
        margin = f" (margin over the next best alignment {count(report.margin)}x)" if report.margin is not None else ""
        notes.append(
            f"{plural(report.inferred, 'collective')} carried no sequence number: matched by their ends{margin}."
        )
    hidden = sum(report.hidden_wait_ns.values())
    waited = sum(report.waited_ns.values())
    if hidden:
        notes.append(
            f"{share(hidden / (hidden + waited))} of all waiting is hidden under compute or transfer and costs nothing."
        )
    return notes
