"""Who waited for whom: exposed waiting, and the rank it is charged to."""

from __future__ import annotations

from rankscope.analyzers.findings import Diagnosis
from rankscope.analyzers.measured import CollectivesReport
from rankscope.analyzers.quantities import duration
from rankscope.reports.blocks import Block, Column, Grid, Heatmap, Quantity, Section, Text

ORDER = 45
_COLUMNS = (
    Column("rank", numeric=False),
    Column(
        "caused",
        doc="exposed waiting of other ranks charged to this one, rank-time; nobody is charged what it passed on",
    ),
    Column("waited", doc="exposed waiting of this rank"),
    Column("alone", doc="what fixing this rank alone would return, wall time"),
    Column("last to arrive", doc="collectives in which it came last"),
    Column("hidden wait", doc="waiting that compute or transfer hides"),
)


def build(diagnosis: Diagnosis) -> Section | None:
    """None where no collective was matched: waiting is then unknown, and the collectives section says so."""
    report = diagnosis.collectives
    if not report.matched:
        return None
    ranks = diagnosis.run.ranks
    if not any(report.waited_ns.values()):
        text = "No rank waited visibly for another in the collectives that were matched."
        return Section("waits", "Who waited for whom", (Text(text),))
    blocks: list[Block] = [_by_rank(report, ranks)]
    if len({entry.causer for entry in report.waited_for}) > 1:
        blocks.insert(0, _matrix(report, ranks))
    if any(report.dependency_wait_ns.values()):
        total = sum(report.dependency_wait_ns.values())
        text = (
            f"Receivers waited {duration(total)} for their senders (rank-time): a pipeline's order, charged to nobody."
        )
        blocks.append(Text(text, "muted"))
    lead = "A wait is charged to the rank that caused it, not to one that passed it on; all caused is all waited."
    return Section("waits", "Who waited for whom", tuple(blocks), lead)


def _by_rank(report: CollectivesReport, ranks: list[int]) -> Grid:
    order = sorted(ranks, key=lambda rank: (-report.caused_ns.get(str(rank), 0), rank))
    rows = tuple(
        (
            f"rank {rank}",
            Quantity(report.caused_ns.get(str(rank), 0), "ns"),
            Quantity(report.waited_ns.get(str(rank), 0), "ns"),
            Quantity(report.alone_ns.get(str(rank), 0), "ns"),
            Quantity(report.last_arrivals.get(str(rank), 0), "count"),
            Quantity(report.hidden_wait_ns.get(str(rank), 0), "ns"),
        )
        for rank in order
    )
    return Grid("Per rank, whole run", _COLUMNS, rows, brief=6)


def _matrix(report: CollectivesReport, ranks: list[int]) -> Heatmap:
    waited = {(entry.waiter, entry.causer): entry.ns for entry in report.waited_for}
    causers = sorted({entry.causer for entry in report.waited_for})
    waiters = [rank for rank in ranks if any((rank, causer) in waited for causer in causers)]
    values = tuple(tuple(waited.get((waiter, causer)) for causer in causers) for waiter in waiters)
    names = tuple(f"rank {rank}" for rank in waiters)
    lead = tuple(range(min(len(waiters), 6))) if len(waiters) > 16 else ()
    columns = tuple(str(causer) for causer in causers)
    return Heatmap(
        "Waited (down) for (across)", "waiter", "waited for", names, columns, values, "ns", "wait", True, lead=lead
    )
