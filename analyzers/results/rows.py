"""The rows of the tables that leave rankscope (`result_tables.py`). Their sums are the report's: both read the same
figures.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from rankscope.analyzers.analysis import Analysis
from rankscope.analyzers.findings import Diagnosis
from rankscope.analyzers.measured import Row
from rankscope.analyzers.one_rank import kernel_kind
from rankscope.analyzers.one_rank.row_times import KernelTotals
from rankscope.analyzers.results.collectives import CollectiveTable, collectives
from rankscope.analyzers.results.made import table_of
from rankscope.analyzers.results.pulse import PulseTable, StageTable, pulse, stages
from rankscope.analyzers.results.tables import (
    AttributionTable,
    ClockTable,
    FindingTable,
    KernelTable,
    StepTable,
    TrafficTable,
    WaitedForTable,
    WaitTable,
)
from rankscope.analyzers.trace.table import Table


def attribution(analysis: Analysis) -> AttributionTable:
    """Every row of the report."""
    return table_of(AttributionTable, map(_attributed, analysis.rows))


def _attributed(row: Row) -> list[object]:
    numbered = isinstance(row.step, int)
    window = "step" if numbered else row.step or "run"
    parts = (row.compute, row.communication, row.io, row.host, row.idle)
    told = {"rank": row.rank, "device": row.device, "window": window, "step": row.step if numbered else None}
    told |= {name: getattr(row, name) for name in ("partial", "window_ns")}
    told |= {name: getattr(row, name) for name in AttributionTable.declared if name in PARENTS}
    told |= {name: getattr(part, name) for part in parts for name in part.__slots__ if name != "overlapped_ns"}
    told["communication_overlapped_ns"] = row.communication.overlapped_ns
    told["io_overlapped_ns"] = row.io.overlapped_ns
    return [told[name] for name in AttributionTable.declared]


PARENTS: Final = ("compute_ns", "communication_ns", "io_ns", "host_ns", "idle_ns")


def steps(analysis: Analysis) -> StepTable:
    """The steps in order of their numbers; none where the host set no marks."""
    by_step: dict[int, list[Row]] = {}
    for row in analysis.rows:
        if isinstance(row.step, int):
            by_step.setdefault(row.step, []).append(row)
    judged = set(analysis.steps)
    found = []
    for column, step in enumerate(analysis.columns):
        if step is None:
            continue
        rows = by_step.get(step, [])
        whole = [row for row in rows if not row.partial]
        windows = [row.window_ns for row in whole]
        means = [float(np.mean([getattr(row, name) for row in whole])) if whole else None for name in PARENTS]
        caused = analysis.waits.caused[:, column]
        most = int(np.argmax(caused)) if caused.any() else None
        found.append(
            [
                step, step in judged, len(whole), len(rows) - len(whole),
                float(np.median(windows)) if whole else None, min(windows, default=None), max(windows, default=None),
                *means, int(analysis.waits.waited[:, column].sum()),
                None if most is None else analysis.ranks[most], 0 if most is None else int(caused[most]),
            ]
        )  # fmt: skip
    return table_of(StepTable, found)


def waits(analysis: Analysis) -> WaitTable:
    """Every rank and step, and a row a rank for the time outside every step where anybody waited in it."""
    charged = analysis.waits
    outside = [charged.waited[:, -1].any() or charged.caused[:, -1].any() or charged.alone[:, -1].any()]
    columns = [(at, step) for at, step in enumerate(analysis.columns)]
    columns += [(len(analysis.columns), None)] if outside[0] else []
    figures = (charged.waited, charged.caused, charged.alone)
    return table_of(
        WaitTable,
        ([rank, step, *(int(f[lane, at]) for f in figures)] for lane, rank in enumerate(analysis.ranks)
         for at, step in columns),
    )  # fmt: skip


def kernels(analysis: Analysis) -> KernelTable:
    """All kernels and copies of every rank, heaviest first within a rank."""
    rows: list[list[object]] = []
    for rank, record in zip(analysis.ranks, analysis.records, strict=True):
        table = record[KernelTotals]
        for i in np.argsort(-table.total_ns, kind="stable").tolist():
            count, total = int(table.count[i]), int(table.total_ns[i])
            kind = kernel_kind.KIND_NAMES[int(table.kind[i])]
            extremes = (int(table.min_ns[i]), int(table.max_ns[i]))
            rows.append([rank, record.names[int(table.name_id[i])], kind, count, total, total / count, *extremes])
    return table_of(KernelTable, rows)


def waited_for(diagnosis: Diagnosis) -> WaitedForTable:
    """Pairs, largest first."""
    return table_of(WaitedForTable, ((w.waiter, w.causer, w.ns) for w in diagnosis.collectives.waited_for))


def traffic(diagnosis: Diagnosis) -> TrafficTable:
    """Groups as in the report."""
    return table_of(
        TrafficTable,
        ((g.group, _listed(g.ranks), g.collective, g.bytes, g.count, g.wait_ns, g.transfer_ns, g.bus_bytes_per_s,
          g.imbalance) for g in diagnosis.collectives.by_group),
    )  # fmt: skip


def clocks(diagnosis: Diagnosis) -> ClockTable:
    """One row a rank."""
    return table_of(
        ClockTable,
        ((c.rank, c.host, c.offset_ns, c.drift_ppb, c.residual_ns, c.method, c.origin_ns) for c in diagnosis.clock),
    )


def findings(diagnosis: Diagnosis) -> FindingTable:
    """As in the report."""
    return table_of(
        FindingTable,
        ((f.rule, f.kind, f.severity, f.message, _listed(f.ranks), _listed(f.steps), f.cost_ns, f.cause, f.confidence,
          f.advice) for f in diagnosis.findings),
    )  # fmt: skip


def _listed(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers))


FROM_ANALYSIS: Final[dict[str, Callable[[Analysis], Table]]] = {
    "attribution": attribution,
    "steps": steps,
    "collectives": collectives,
    "waits": waits,
    "kernels": kernels,
    "pulse": pulse,
    "stages": stages,
}
FROM_DIAGNOSIS: Final[dict[str, Callable[[Diagnosis], Table]]] = {
    "waited_for": waited_for,
    "traffic": traffic,
    "clocks": clocks,
    "findings": findings,
}
RESULTS: Final[dict[str, type[Table]]] = {
    "attribution": AttributionTable,
    "steps": StepTable,
    "collectives": CollectiveTable,
    "traffic": TrafficTable,
    "waits": WaitTable,
    "waited_for": WaitedForTable,
    "kernels": KernelTable,
    "clocks": ClockTable,
    "pulse": PulseTable,
    "stages": StageTable,
    "findings": FindingTable,
}


def results(analysis: Analysis, diagnosis: Diagnosis) -> dict[str, Table]:
    """Every table by its name, in the order of RESULTS."""
    made = {name: make(analysis) for name, make in FROM_ANALYSIS.items()}
    made |= {name: make(diagnosis) for name, make in FROM_DIAGNOSIS.items()}
    return {name: made[name] for name in RESULTS}
