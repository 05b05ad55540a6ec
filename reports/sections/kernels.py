"""The heaviest kernels of each kind, so that a misfiled one is seen."""

from __future__ import annotations

from itertools import groupby

from rankscope.analyzers.findings import Diagnosis
from rankscope.analyzers.measured import KernelTotal
from rankscope.reports.blocks import Cell, Column, Grid, Name, Quantity, Section

ORDER = 50
KINDS = {
    "compute": "Compute kernels",
    "communication": "Communication kernels",
    "device_copy": "Copies and fills on the device",
    "host_to_device": "Copies to the device",
    "device_to_host": "Copies to the host",
}
_COLUMNS = (
    Column("name", numeric=False),
    Column("total"),
    Column("count"),
    Column("mean"),
    Column("min"),
    Column("max"),
)


def build(diagnosis: Diagnosis) -> Section | None:
    """None where no kernel was recorded (CPU-only ranks)."""
    if not diagnosis.kernels:
        return None
    order = list(KINDS)
    known = sorted(diagnosis.kernels, key=lambda kernel: (_place(order, kernel.kind), -kernel.total_ns))
    grids = tuple(_grid(kind, list(kernels)) for kind, kernels in groupby(known, key=lambda kernel: kernel.kind))
    lead = "Over all ranks and launches, told apart by arguments, category and name. Is one in the wrong class?"
    return Section("kernels", "Kernels", grids, lead)


def _place(order: list[str], kind: str) -> int:
    return order.index(kind) if kind in order else len(order)


def _grid(kind: str, kernels: list[KernelTotal]) -> Grid:
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (
            Name(kernel.name),
            Quantity(kernel.total_ns, "ns"),
            Quantity(kernel.count, "count"),
            Quantity(kernel.mean_ns, "ns"),
            Quantity(kernel.min_ns, "ns"),
            Quantity(kernel.max_ns, "ns"),
        )
        for kernel in kernels
    )
    return Grid(KINDS.get(kind, kind), _COLUMNS, rows, brief=3)
