"""What every drawing of a heat map shares: its scale, and fewer rows and columns where there are too many to see."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import median

from rankscope.reports.blocks import Heatmap

_FLAT_SHARE = 0.1  # the scale spans at least this share of the most, so that noise stays pale

Values = tuple[float | None, ...]


def scale(block: Heatmap) -> tuple[float, float]:
    """The least and the most of the columns that count (of all where none does), set apart where they are close."""
    counted = [v for row in block.values for i, v in enumerate(row) if v is not None and i not in block.faint]
    values = counted or [v for row in block.values for v in row if v is not None] or [0]
    low, high = 0.0 if block.from_zero else min(values), max(values)
    missing = max(_FLAT_SHARE * high - (high - low), 0.0)
    return low - missing / 2, high + missing / 2


def level(value: float, bounds: tuple[float, float], levels: int) -> int:
    """Which of `levels` shades, 0 the faintest; what lies outside the scale takes its ends."""
    low, high = bounds
    place = (value - low) / (high - low) if high > low else 0.0
    return min(int(max(place, 0.0) * levels), levels - 1)


def leading_rows(block: Heatmap) -> Heatmap:
    """Only the rows worth a look, and one that stands for all others; the block itself if it has no such rows."""
    if not block.lead:
        return block
    lead = set(block.lead)
    others = [values for i, values in enumerate(block.values) if i not in lead]
    rows = [block.rows[i] for i in block.lead]
    values: list[Values] = [block.values[i] for i in block.lead]
    if others:
        known = [[value for value in column if value is not None] for column in zip(*others, strict=True)]
        rows.append(f"{len(others)} others")
        values.append(tuple(median(column) if column else None for column in known))
    return replace(block, rows=tuple(rows), values=tuple(values), lead=())


def at_most(block: Heatmap, columns: int) -> Heatmap:
    """Neighbouring columns merged (the largest value stays) until there are at most `columns`."""
    merged = -(-len(block.columns) // max(columns, 1))
    if merged <= 1:
        return block
    spans = list(pairwise([*range(0, len(block.columns), merged), len(block.columns)]))
    names = tuple(f"{block.columns[a]}-{block.columns[b - 1]}" if b - a > 1 else block.columns[a] for a, b in spans)
    values = tuple(tuple(_most(row[a:b]) for a, b in spans) for row in block.values)
    faint = frozenset(i for i, (a, b) in enumerate(spans) if set(range(a, b)) <= block.faint)
    return replace(block, columns=names, values=values, faint=faint)


def _most(values: Sequence[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)
