"""Bars and heat maps as characters. Every bucket family has its own character, so that colour is never needed."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.text import Text as Line

from rankscope.analyzers.quantities import duration, share
from rankscope.reports import heat
from rankscope.reports.blocks import Bar, Bars, Heatmap, Quantity
from rankscope.reports.buckets import ALL_FAMILIES, BY_KEY, Family
from rankscope.reports.format import quantity
from rankscope.reports.names import shortened, visible

FAMILY_GLYPHS = {
    "forward": "█",
    "backward": "▓",
    "optimizer": "▒",
    "queued": "~",
    "compute": "█",
    "transfer": "▓",
    "unsplit": "▒",
    "wait": "x",
    "io": "o",
    "host": "-",
    "idle": "·",
}
FAMILY_STYLES = {
    "forward": "blue",
    "backward": "magenta",
    "optimizer": "cyan",
    "queued": "yellow",
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
_BAR_LEAST = 12
_LEAST_SHARE = 0.001  # below, a column of shares has no room for digits


def bars(block: Bars, width: int) -> list[Line]:
    """A line per bar: label, window, the bar, and each family's share."""
    shown = [*block.lead, *([block.rest_mean] if block.rest_mean else [])]
    if not shown:
        return []
    families = [family for family in ALL_FAMILIES if any(_family_ns(bar, family) for bar in shown)]
    labels = [shortened(visible(bar.label), width // 2 - 6) for bar in shown]  # the bar keeps the other half
    label_width = max(map(cell_len, labels))
    figures = sum(_figure(family) for family in families)
    room = width - label_width - 10 - figures - 2
    if room < _BAR_LEAST:
        families, room = [], width - label_width - 12
    scale = max(bar.total_ns for bar in shown) or 1
    lines = [_heading(families, label_width, room)]
    for bar, label in zip(shown, labels, strict=True):
        line = Line(f"{label:<{label_width}} {duration(bar.total_ns):>8} ")
        line.append_text(_stack(bar, room, scale))
        for family in families:
            ns = _family_ns(bar, family)
            line.append(f"{_share(ns, bar.total_ns):>{_figure(family)}}")
        lines.append(line)
        if bar.why and block.rest_mean:
            lines.append(Line(" " * (label_width + 10) + visible(bar.why), style="dim"))
    return [*lines, *_legend(shown, width)]


def _share(ns: float, total: float) -> str:
    part = ns / total if total else 0.0
    return share(part) if part >= _LEAST_SHARE else "<0.1 %" if part else "-"


def _figure(family: Family) -> int:
    return 1 + max(len("18.3 %"), len(_SHORT.get(family.label, family.label)))


def _heading(families: Sequence[Family], label_width: int, room: int) -> Line:
    heads = "".join(f"{_SHORT.get(family.label, family.label):>{_figure(family)}}" for family in families)
    return Line(f"{'':<{label_width}} {'window':>8} {'':<{room}}{heads}", style="dim")


def _family_ns(bar: Bar, family: Family) -> float:
    return sum(part.ns for part in bar.parts if BY_KEY[part.bucket].family == family.key)


def _stack(bar: Bar, room: int, scale: float) -> Line:
    """Cumulative rounding: the bar's length is its total, whatever its parts."""
    line, done, total = Line(), 0, 0.0
    for family in ALL_FAMILIES:
        total += _family_ns(bar, family)
        upto = round(room * total / scale)
        line.append(FAMILY_GLYPHS[family.key] * (upto - done), style=FAMILY_STYLES[family.key])
        done = upto
    line.append(" " * (room - done))
    return line


def _legend(shown: Sequence[Bar], width: int) -> list[Line]:
    lines = [Line()]
    for family in ALL_FAMILIES:
        if not any(_family_ns(bar, family) for bar in shown):
            continue
        entry = Line.assemble((FAMILY_GLYPHS[family.key], FAMILY_STYLES[family.key]), (f" {family.label}   ", "dim"))
        if lines[-1].cell_len + entry.cell_len > width:
            lines.append(Line())
        lines[-1].append_text(entry)
    return lines


def heatmap(block: Heatmap, width: int) -> list[Line]:
    """A line per row (the leading ones where there are many) within `width`; columns are merged if need be."""
    low, high = bounds = heat.scale(block)
    shown = heat.leading_rows(block)
    label_width = max([len(block.row_axis), *(cell_len(name) for name in shown.rows)])
    room = max(width - label_width - 1, 1)
    shown = heat.at_most(shown, room)
    roomy = 4 if len(shown.columns) <= 6 else 3 if len(shown.columns) <= 10 else 2
    cell_width = max(1, min(roomy, room // len(shown.columns)))
    lines = [Line(block.title, style="bold"), _columns(shown, cell_width, label_width)]
    for name, values in zip(shown.rows, shown.values, strict=True):
        shades = (" " if v is None else _SHADES[heat.level(v, bounds, len(_SHADES))] for v in values)
        drawn = "".join(shade * cell_width for shade in shades)
        lines.append(Line.assemble(f"{name:<{label_width}} ", (drawn, FAMILY_STYLES[BY_KEY[block.hue].family])))
    if shown.faint:
        marks = "".join(("~" if i in shown.faint else " ") * cell_width for i in range(len(shown.columns)))
        lines.append(Line(f"{'':<{label_width}} {marks}".rstrip(), style="dim"))
    least, most = (quantity(Quantity(value, block.unit)) for value in (low, high))
    legend = f"{_SHADES[0]} {least}  {_SHADES[-1]} {most}"
    lines.append(Line(legend[:width], style="dim"))
    return lines


def _columns(block: Heatmap, cell_width: int, label_width: int) -> Line:
    """The columns' names, as many as fit."""
    text = ""
    for i, name in enumerate(block.columns):
        if i * cell_width >= len(text) + bool(text):
            text = text.ljust(i * cell_width) + name
    return Line(
        f"{block.column_axis[:label_width]:<{label_width}} {text[: len(block.columns) * cell_width]}", style="dim"
    )
