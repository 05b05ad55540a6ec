"""Bars and heat maps as inline SVG. Lengths are per cent, so that a figure fits any width and its text never shrinks.

Colours are classes (`b-wait`, `q5`): the page's style sheet says what they are in light and in dark.
"""

from __future__ import annotations

from rankscope.analyzers.quantities import duration, exact_ns, share
from rankscope.reports import heat
from rankscope.reports.blocks import Bar, Heatmap, Quantity
from rankscope.reports.buckets import BY_KEY
from rankscope.reports.format import exact, quantity
from rankscope.reports.names import visible
from rankscope.reports.renderers.markup import escaped, tag

LEVELS = 9
MOST_COLUMNS = 240  # more cells than that are narrower than a pixel on a phone
_MOST_TEXT_COLUMNS = 12
BAR_HEIGHT = 22
_TEXT_HEIGHT = 14


def bar(block: Bar, scale_ns: float) -> str:
    """One stacked bar whose whole width is `scale_ns`; each segment says its exact time."""
    segments, at = [], 0.0
    for part in block.parts:
        wide = 100 * part.ns / scale_ns if scale_ns else 0.0
        told = (
            f"{BY_KEY[part.bucket].label}: {duration(part.ns)} ({_share(part.ns, block.total_ns)}), {exact_ns(part.ns)}"
        )
        title = tag("title", escaped(told))
        segments.append(
            tag("rect", title, class_=f"b-{part.bucket}", x=_percent(at), width=_percent(wide), height="100%")
        )
        at += wide
    return tag("svg", "".join(segments), class_="bar", role="img", aria_label=_told(block), height=BAR_HEIGHT)


def _told(block: Bar) -> str:
    parts = ", ".join(f"{BY_KEY[part.bucket].label} {_share(part.ns, block.total_ns)}" for part in block.parts)
    return f"{block.label}, {duration(block.total_ns)}: {parts}"


def _share(ns: float, total: float) -> str:
    return share(ns / total) if total else share(None)


def _percent(value: float) -> str:
    return f"{value:.4g}%"


def swatch(bucket: str) -> str:
    """The little square of a legend."""
    return tag(
        "svg", tag("rect", class_=f"b-{bucket}", width="100%", height="100%", rx=3), class_="swatch", aria_hidden="true"
    )


def row_height(rows: int) -> int:
    """Pixels of a heat map's row: tall where there are few."""
    return 26 if rows <= 16 else 16 if rows <= 40 else 8


def heatmap_cells(block: Heatmap) -> str:
    """The cells, one a (row, column); what was not recorded is left empty."""
    bounds = heat.scale(block)
    tall, wide = row_height(len(block.rows)), 100 / len(block.columns)
    cells = []
    for r, values in enumerate(block.values):
        for c, value in enumerate(values):
            if value is None:
                continue
            shade = heat.level(value, bounds, LEVELS)
            figure = Quantity(value, block.unit)
            told = f"{block.rows[r]}, {block.column_axis} {block.columns[c]}: {quantity(figure)}, {exact(figure)}"
            cells.append(
                tag(
                    "rect",
                    tag("title", escaped(told)),
                    class_=f"q{shade}{' faint' if c in block.faint else ''}",
                    x=_percent(c * wide),
                    y=r * tall,
                    width=_percent(wide),
                    height=tall,
                )
            )
            if len(block.columns) <= _MOST_TEXT_COLUMNS and tall >= BAR_HEIGHT:
                x, on = _percent((c + 0.5) * wide), " on" if shade >= LEVELS - 2 and c not in block.faint else ""
                cells.append(
                    tag("text", escaped(quantity(figure)), class_=f"cell{on}", x=x, y=r * tall + tall // 2 + 4)
                )
    told = f"{block.title}: {len(block.rows)} rows by {len(block.columns)} columns"
    return tag(
        "svg", "".join(cells), class_=f"heat h-{block.hue}", role="img", aria_label=told, height=len(block.rows) * tall
    )


def heatmap_rows(block: Heatmap) -> str:
    """The rows' names beside the cells; where rows are low, the leading ones and every fourth."""
    tall = row_height(len(block.rows))
    near = -(-_TEXT_HEIGHT // tall) - 1  # rows to either side that a name covers
    lead = [] if len(block.lead) == len(block.rows) else sorted(block.lead)
    named = {r for i, r in enumerate(lead) if not i or r - lead[i - 1] > near}
    for r in range(0, len(block.rows), 1 if not near else 4):
        if not any(r + away in named for away in range(-near, near + 1)):
            named.add(r)
    names = "".join(
        tag("text", escaped(block.rows[r]), x="100%", y=r * tall + tall // 2 + 4, class_="lead" if r in lead else None)
        for r in sorted(named)
    )
    wide = 8 * max((len(visible(name)) for name in block.rows), default=1)
    return tag(
        "svg", names, class_="axis rows", aria_hidden="true", width=min(wide, 120), height=len(block.rows) * tall
    )


def heatmap_columns(block: Heatmap) -> str:
    """The columns' names below the cells, about ten of them."""
    every = max(1, -(-len(block.columns) // 10))
    wide = 100 / len(block.columns)
    names = "".join(
        tag("text", escaped(name), x=_percent((c + 0.5) * wide), y=13, class_="faint" if c in block.faint else None)
        for c, name in enumerate(block.columns)
        if c % every == 0
    )
    return tag("svg", names, class_="axis columns", aria_hidden="true", height=18)


def heatmap_scale(block: Heatmap) -> str:
    """The legend: from the least to the most."""
    low, high = (escaped(quantity(Quantity(value, block.unit))) for value in heat.scale(block))
    shades = "".join(
        tag("rect", class_=f"q{i}", x=_percent(100 * i / LEVELS), width=_percent(100 / LEVELS), height="100%")
        for i in range(LEVELS)
    )
    ramp = tag("svg", shades, class_=f"ramp heat h-{block.hue}", aria_hidden="true", height=10)
    return tag("div", f"{low} {ramp} {high}", class_="scale")
