"""Grids as lines of a terminal: every column gets its width first, so that no line is ever longer than the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.table import Table
from rich.text import Text as Line

from rankscope.reports.blocks import Cell, Column, Grid, Name
from rankscope.reports.format import cell
from rankscope.reports.names import shortened, visible

GAP = 2
_NARROWEST = 8
_NAME_MOST = 88  # a longer kernel name says no more


def table(grid: Grid, width: int, limit: int) -> Table:
    """The first `limit` rows of `grid` in at most `width` columns; names lose their middle, other text wraps."""
    rows = grid.rows[:limit]
    texts = [[_text(content, column) for content, column in zip(row, grid.columns, strict=True)] for row in rows]
    gap, widths = _widths(grid.columns, texts, width)
    headed = any(column.title for column in grid.columns)
    drawn = Table(
        box=None, padding=(0, gap, 0, 0), pad_edge=False, show_header=headed, header_style="dim", expand=False
    )
    for column, wide in zip(grid.columns, widths, strict=True):
        justify = "right" if column.numeric else "left"
        drawn.add_column(Line(column.title), width=wide, justify=justify, vertical="bottom", overflow="fold")  # type: ignore[arg-type]
    for row, line in zip(rows, texts, strict=True):
        drawn.add_row(*(_fitted(c, text, wide) for c, text, wide in zip(row, line, widths, strict=True)))
    return drawn


def _text(content: Cell, column: Column) -> str:
    text = visible(cell(content))
    return shortened(text, _NAME_MOST) if isinstance(content, Name) else text


def _fitted(content: Cell, text: str, width: int) -> Line:
    while isinstance(content, Name) and cell_len(text) > width:
        text = shortened(text, len(text) - max(1, (cell_len(text) - width) // 2))
    return Line(text)


def _widths(columns: Sequence[Column], texts: Sequence[Sequence[str]], width: int) -> tuple[int, list[int]]:
    """The gap and the natural widths; where room is short the gap, then wide texts, then figures give way."""
    least = [max((cell_len(word) for word in column.title.split()), default=1) for column in columns]
    widths = [max([low, *(cell_len(line[i]) for line in texts)]) for i, low in enumerate(least)]
    headed = [max(wide, cell_len(column.title)) for wide, column in zip(widths, columns, strict=True)]
    if sum(headed) + GAP * len(columns) <= width:
        return GAP, headed
    gap = GAP if sum(widths) + GAP * len(columns) <= width else 1
    room = width - gap * len(columns)
    for only_text in (True, False):
        while sum(widths) > room:
            wide = [i for i, column in enumerate(columns) if not (only_text and column.numeric)]
            wide = [i for i in wide if widths[i] > (_NARROWEST if only_text else 1)]
            if not wide:
                break
            widest = max(wide, key=lambda i: widths[i])
            widths[widest] -= 1
    return gap, widths
