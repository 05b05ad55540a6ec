"""Bars and heat maps as characters. Every bucket family has its own character, so that colour is never needed."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from rich.cells import cell_len
from rich.text import Text as Line

from rankscope.analyzers.quantities import duration, share
from rankscope.reports.blocks import Bar, Bars, Heatmap, Quantity
from rankscope.reports.buckets import BY_KEY, FAMILIES, Family
from rankscope.reports.format import quantity
from rankscope.reports.names import visible

FAMILY_GLYPHS = {
    "compute": "█",
    "transfer": "▓",
    "unsplit": "▒",
    "wait": "×",
    "io": "≡",
    "host": "-",
    "idle": "·",
}
FAMILY_STYLES = {
    "compute": "blue",
    "transfer": "magenta",
    "unsplit": "bright_magenta",
    "wait": "red",
    "io": "green",
    "host": "yellow",
    "idle": "bright_black",
}
_SHADES = "·░▒▓█"
_SHORT = {"input/output": "in/out"}
_FIGURE = 8  # "transfer" is the longest heading
_BAR_LEAST = 12


def bars(block: Bars, width: int) -> list[Line]:
    """A line per bar: label, window, the bar, and each family's share."""
    shown = [*block.lead, *([block.rest_mean] if block.rest_mean else [])]
    if not shown:
        return []
    families = [family for family in FAMILIES if any(_family_ns(bar, family) for bar in shown)]
    label_width = max(cell_len(visible(bar.label)) for bar in shown)
    figures = len(families) * _FIGURE
    room = width - label_width - 10 - figures - 2
    if room < _BAR_LEAST:
        families, room = [], width - label_width - 12
    scale = max(bar.total_ns for bar in shown) or 1
    lines = [_heading(families, label_width, room)]
    for bar in shown:
        line = Line(f"{visible(bar.label):<{label_width}} {duration(bar.total_ns):>8} ")
        line.append_text(_stack(bar, room, scale))
        for family in families:
            ns = _family_ns(bar, family)
            line.append(f"{share(ns / bar.total_ns) if ns and bar.total_ns else '-':>{_FIGURE}}")
        lines.append(line)
        if bar.why and block.rest_mean:
            lines.append(Line(" " * (label_width + 10) + visible(bar.why), style="dim"))
    return [*lines, *_legend(shown, width)]


def _heading(families: Sequence[Family], label_width: int, room: int) -> Line:
    heads = "".join(f"{_SHORT.get(family.label, family.label):>{_FIGURE}}" for family in families)
    return Line(f"{'':<{label_width}} {'window':>8} {'':<{room}}{heads}", style="dim")


def _family_ns(bar: Bar, family: Family) -> float:
    return sum(part.ns for part in bar.parts if BY_KEY[part.bucket].family == family.key)


def _stack(bar: Bar, room: int, scale: float) -> Line:
    """Cumulative rounding: the bar's length is its total, whatever its parts."""
    line, done, total = Line(), 0, 0.0
    for family in FAMILIES:
        total += _family_ns(bar, family)
        upto = round(room * total / scale)
        line.append(FAMILY_GLYPHS[family.key] * (upto - done), style=FAMILY_STYLES[family.key])
        done = upto
    line.append(" " * (room - done))
    return line


def _legend(shown: Sequence[Bar], width: int) -> list[Line]:
    lines = [Line()]
    for family in FAMILIES:
        if not any(_family_ns(bar, family) for bar in shown):
            continue
        entry = Line.assemble((FAMILY_GLYPHS[family.key], FAMILY_STYLES[family.key]), (f" {family.label}   ", "dim"))
        if lines[-1].cell_len + entry.cell_len > width:
            lines.append(Line())
        lines[-1].append_text(entry)
    return lines


def heatmap(block: Heatmap, width: int) -> list[Line]:
    """A line per row (the leading ones where there are many) in at most `width` columns; columns are merged if need be."""
    picked = list(block.lead) or list(range(len(block.rows)))
    label_width = max([cell_len(block.rows[i]) for i in picked], default=0)
    room = max(width - label_width - 1, 1)
    columns = len(block.columns)
    merged = -(-columns // room)
    cell_width = 1 if merged > 1 else min(4, room // columns)
    bounds = list(range(0, columns, merged)) + [columns]
    low, high = scale(block)
    lines = [Line(block.title, style="bold"), _steps(block, bounds, cell_width, label_width)]
    for i in picked:
        line = Line(f"{block.rows[i]:<{label_width}} ")
        for start, stop in pairwise(bounds):
            line.append(_shade(block.values[i][start:stop], low, high) * cell_width)
        lines.append(line)
    if block.faint:
        marks = "".join(("~" if set(range(a, b)) <= block.faint else " ") * cell_width for a, b in pairwise(bounds))
        lines.append(Line(f"{'':<{label_width}} {marks}".rstrip(), style="dim"))
    left = len(block.rows) - len(picked)
    least, most = (quantity(Quantity(value, block.unit)) for value in (low, high))
    lines.append(
        Line(f"{_SHADES[0]} {least}  {_SHADES[-1]} {most}{f'  +{left} more' if left else ''}"[:width], style="dim")
    )
    return lines


def scale(block: Heatmap) -> tuple[float, float]:
    """Least and most of the columns that count; a spread below 5 % of the most is noise and is not stretched."""
    counted = [v for row in block.values for i, v in enumerate(row) if v is not None and i not in block.faint]
    values = counted or [v for row in block.values for v in row if v is not None] or [0]
    high = max(values)
    return (0.0 if block.from_zero else min(min(values), 0.95 * high)), high


def _shade(values: Sequence[float | None], low: float, high: float) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return " "
    place = (max(known) - low) / (high - low) if high > low else 0.0
    return _SHADES[min(int(max(place, 0.0) * len(_SHADES)), len(_SHADES) - 1)]


def _steps(block: Heatmap, bounds: Sequence[int], cell_width: int, label_width: int) -> Line:
    """The columns' names, as many as fit."""
    text = ""
    for place, start in enumerate(bounds[:-1]):
        if place * cell_width >= len(text) + bool(text):
            text = text.ljust(place * cell_width) + block.columns[start]
    room = (len(bounds) - 1) * cell_width
    return Line(f"{block.column_axis[:label_width]:<{label_width}} {text[: max(room, 1)]}", style="dim")
