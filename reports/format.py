"""Cells as text: the one place where a report turns a value into words (the words are `analyzers.quantities`)."""

from __future__ import annotations

from rankscope.analyzers.quantities import UNKNOWN, count, duration, exact_ns, rate, share, significant, size
from rankscope.reports.blocks import Cell, Name, Quantity

__all__ = ["UNKNOWN", "cell", "exact", "quantity"]


def quantity(amount: Quantity) -> str:
    """A quantity as a person reads it; `n/a` when it is unknown."""
    value = amount.value
    match amount.unit:
        case "ns":
            return duration(value)
        case "bytes":
            return size(value)
        case "share":
            return share(value)
        case "bytes_per_s":
            return rate(value)
        case "gpu_hours":
            return UNKNOWN if value is None else significant(value)
        case "money":
            return UNKNOWN if value is None else f"{value:,.2f}"
        case "ppb":
            return UNKNOWN if value is None else f"{significant(value)} ppb"
        case "factor":
            return UNKNOWN if value is None else f"{significant(value)}x"
        case _:
            return count(value)


def exact(cell: Cell) -> str:
    """The unrounded value, for a tooltip; empty where the text already is exact."""
    if not isinstance(cell, Quantity) or cell.value is None:
        return ""
    if cell.unit == "ns":
        return exact_ns(cell.value)
    if cell.unit == "bytes":
        return f"{round(cell.value):,} bytes"
    if cell.unit in ("share", "factor", "bytes_per_s", "gpu_hours"):
        return f"{cell.value:.6g}"
    return ""


def cell(content: Cell) -> str:
    """Any cell as plain text (names as they are: a renderer neutralises them)."""
    if isinstance(content, Quantity):
        return quantity(content)
    return content.text if isinstance(content, Name) else content
