"""The report as Markdown for a ticket or a pull request: the sections for a hurried reader open, the others folded.

Names out of traces stand in code, and other text is escaped: no image, link, mention, table or HTML of theirs comes
through.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from rich.text import Text as Line

from rankscope.analyzers.findings import Diagnosis
from rankscope.reports.blocks import (
    Bars,
    Block,
    Cell,
    Copyable,
    Facts,
    Grid,
    Heatmap,
    Name,
    Section,
    Story,
    Terms,
    Text,
    Verdict,
)
from rankscope.reports.format import cell
from rankscope.reports.names import shortened, visible
from rankscope.reports.renderers import glyphs
from rankscope.reports.sections import sections

SIGNS = {"critical": "✖", "warning": "▲", "note": "●", "ok": "✔", "unknown": "?"}
WIDTH = 100  # of drawings
_NAME_MOST = 120
_GAP = "\u200b"  # parts what a forge would turn into a mention, a reference or a link
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|~$^])")
_REFERENCE = re.compile(r"([@#!&%](?=\w)|\b(?:https?|ftp|mailto|xmpp):(?=\S)|\bwww(?=\.)|(?<=\w)@)", re.IGNORECASE)
_OPENING = re.compile(r"^(\s*\d*)([.)](?=\s|$)|[#+=-](?=[#+=\s-]|$))")


def render(diagnosis: Diagnosis) -> str:
    """The report; ends with a newline. Its length does not grow with the ranks beyond the few that stand out."""
    parts = ["\n\n".join(_section(section)) for section in sections(diagnosis)]
    return "\n\n".join([*parts, "<sub>made by rankscope</sub>"]) + "\n"


def escaped(text: str) -> str:
    """Text that is only text, on one line."""
    plain = _REFERENCE.sub(rf"\1{_GAP}", visible(text))
    return _OPENING.sub(r"\1\\\2", _SPECIAL.sub(r"\\\1", plain.replace("&", f"&{_GAP}")))


def code(text: str) -> str:
    """Text in code, whatever backticks it has."""
    plain = visible(text)
    if not plain.strip():
        return ""
    fence = _longer("`", plain, 1)
    inside = f" {plain} " if plain.startswith("`") or plain.endswith("`") else plain
    return f"{fence}{inside}{fence}"


def fenced(text: str, language: str = "") -> str:
    """Lines in a block of code."""
    fence = _longer("`", text, 3)
    return f"{fence}{language}\n{text}\n{fence}"


def _longer(mark: str, text: str, least: int) -> str:
    longest = max((len(run) for run in re.findall(f"{mark}+", text)), default=0)
    return mark * max(least, longest + 1)


def _section(section: Section) -> Iterable[str]:
    inside = [f"*{escaped(section.lead)}*"] if section.lead else []
    inside += [drawn for block in section.blocks if (drawn := _block(block))]
    if section.id == "verdict":
        return inside
    if section.detail:
        return _folded(section.title, inside)
    return [f"## {escaped(section.title)}", *inside]


def _folded(title: str, inside: Iterable[str]) -> list[str]:
    return [f"<details><summary>{escaped(title)}</summary>", *inside, "</details>"]


def _block(block: Block) -> str:
    match block:
        case Text():
            return f"**!** {escaped(block.text)}" if block.tone == "caution" else escaped(block.text)
        case Verdict():
            limit = f"\n>\n> {escaped(block.limit)}" if block.limit else ""
            return f"> **{SIGNS[block.status]} {escaped(block.sentence)}**{limit}"
        case Facts():
            return "\n".join(
                f"- {escaped(fact.label)} **{_cell(fact.value)}**{f' ({escaped(fact.note)})' if fact.note else ''}"
                for fact in block.facts
            )
        case Grid():
            return _grid(block)
        case Bars():
            return _drawing(block.title, glyphs.bars(block, WIDTH))
        case Heatmap():
            return _drawing("", glyphs.heatmap(block, WIDTH))
        case Story():
            return _story(block)
        case Copyable():
            why = f" ({escaped(block.why)})" if block.why else ""
            return f"{escaped(block.title)}{why}\n\n{fenced(visible(block.line), 'python')}"
        case Terms():
            return "\n".join(f"- **{escaped(word)}**: {escaped(told)}" for word, told in block.terms[: block.brief])


def _drawing(title: str, lines: list[Line]) -> str:
    drawn = "\n".join(line.plain.rstrip() for line in lines)
    if not drawn.strip():
        return ""
    return (f"{escaped(title)}\n\n" if title else "") + fenced(drawn)


def _story(story: Story) -> str:
    facts = (
        f"{escaped(fact.label)} **{_cell(fact.value)}**{f' ({escaped(fact.note)})' if fact.note else ''}"
        for fact in story.facts
    )
    parts = [
        f"### {SIGNS[story.status]} {escaped(story.title)} ({code(story.rule)}, {story.status})",
        " · ".join(facts),
    ]
    parts += [f"**{escaped(name)}.** {escaped(told)}" for name, told in story.steps]
    grids = [drawn for grid in story.evidence if (drawn := _grid(grid))]
    return "\n\n".join([*parts, *(_folded("evidence", grids) if grids else [])])


def _grid(grid: Grid) -> str:
    if grid.folded or not grid.rows:
        return ""
    head = [f"| {' | '.join(escaped(column.title) or ' ' for column in grid.columns)} |"]
    head += [f"|{'|'.join('---:' if column.numeric else '---' for column in grid.columns)}|"]
    rows = [f"| {' | '.join(map(_tabled, row))} |" for row in grid.rows[: grid.brief]]
    left = len(grid.rows) - grid.brief
    more = [f"\n… {left} more in the HTML and JSON reports"] if left > 0 else []
    return "\n".join([*([f"**{escaped(grid.title)}**\n"] if grid.title else []), *head, *rows, *more])


def _cell(content: Cell) -> str:
    if isinstance(content, Name):
        return code(shortened(content.text, _NAME_MOST))
    return escaped(cell(content))


def _tabled(content: Cell) -> str:
    """A cell of a table: there even code ends at a bar."""
    return (
        code(shortened(content.text, _NAME_MOST)).replace("|", "\\|") if isinstance(content, Name) else _cell(content)
    )
