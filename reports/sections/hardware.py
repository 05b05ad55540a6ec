"""The machines: what NVML and the host's figures say of each rank, beside its peers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from rankscope.analyzers.findings import Diagnosis
from rankscope.analyzers.pulse.measured import SampledFigure
from rankscope.analyzers.quantities import duration, rate, share, significant, size
from rankscope.reports.blocks import Block, Cell, Column, Grid, Name, Section

ORDER = 37
MOST_COLUMNS = 6  # ranks side by side; above, the extremes are named
UNITS: Final[dict[str, Callable[[float], str]]] = {"_bytes_per_s": rate, "_bytes": size, "_share": share, "_ns": duration}


def build(diagnosis: Diagnosis) -> Section | None:
    """None where nothing was sampled."""
    blocks: list[Block] = []
    for title, figures in (("Devices (NVML)", diagnosis.nvml), ("Hosts", diagnosis.host)):
        if figures:
            blocks.append(_grid(title, figures))
    if not blocks:
        return None
    return Section("hardware", "Machines", tuple(blocks), "Medians over the run, beside the steps.", detail=True)


def _grid(title: str, figures: list[SampledFigure]) -> Grid:
    names = list(dict.fromkeys(figure.name for figure in figures))
    ranks = sorted({figure.rank for figure in figures})
    found = {(figure.rank, figure.name): figure for figure in figures}
    if len(ranks) <= MOST_COLUMNS:
        columns = (Column("figure", False), *(Column(f"rank {rank}") for rank in ranks))
        rows: list[tuple[Cell, ...]] = [
            (Name(name), *(_median(found.get((rank, name))) for rank in ranks)) for name in names
        ]
        return Grid(title, columns, tuple(rows), brief=12)
    columns = (Column("figure", False), Column("median rank"), Column("least"), Column("most"), Column("ranks"))
    rows = []
    for name in names:
        medians = sorted((found[rank, name].median, rank) for rank in ranks if (rank, name) in found)
        (low, first), (middle, _), (high, last) = medians[0], medians[len(medians) // 2], medians[-1]
        least, most = f"{_figure(name, low)} (rank {first})", f"{_figure(name, high)} (rank {last})"
        rows.append((Name(name), _figure(name, middle), least, most, str(len(medians))))
    return Grid(title, columns, tuple(rows), brief=12)


def _median(figure: SampledFigure | None) -> str:
    return "n/a" if figure is None else _figure(figure.name, figure.median)


def _figure(name: str, value: float) -> str:
    """By the unit that its name ends in."""
    for ending, words in UNITS.items():
        if name.endswith(ending):
            return words(value)
    if value and not 1e-4 <= abs(value) < 1e12:
        return f"{value:.3g}"
    return f"{int(value):,}" if value.is_integer() else significant(value)
