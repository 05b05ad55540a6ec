"""The report as lines of a terminal: what matters first, many ranks in few lines, no colour unless asked for."""

from __future__ import annotations

from collections.abc import Iterable
from io import StringIO

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.text import Text as Line

from rankscope.analyzers.findings import Diagnosis
from rankscope.reports.blocks import (
    Bars,
    Block,
    Copyable,
    Facts,
    Grid,
    Heatmap,
    Section,
    Story,
    Terms,
    Text,
    Verdict,
)
from rankscope.reports.format import cell
from rankscope.reports.names import visible
from rankscope.reports.renderers import columns, glyphs
from rankscope.reports.sections import sections

_SIGNS = {"critical": "✖", "warning": "▲", "note": "●", "ok": "✔", "unknown": "?"}
_STYLES = {"critical": "bold red", "warning": "bold yellow", "note": "bold cyan", "ok": "bold green", "unknown": "bold"}
_TONES = {"plain": "", "muted": "dim", "caution": "yellow"}
GLYPHS = "✖▲●✔█▓▒░─·µ…"
_ASCII = str.maketrans(GLYPHS, "X!*+#=%:-.u~")

_NARROWEST, _READABLE = 40, 100  # running text wider than this tires the eye


def render(diagnosis: Diagnosis, *, width: int, colour: bool) -> str:
    """The report in lines of at most `width` columns (40 at least), with ANSI colours or as plain text."""
    page = _Page(max(width, _NARROWEST), colour)
    page.line(Line.assemble(("rankscope", "bold"), ("  " + visible(diagnosis.run.path), "dim")))
    for section in sections(diagnosis):
        page.section(section)
    return page.text()


def in_ascii(text: str) -> str:
    """A rendered report for a terminal that draws only ASCII: the same columns, plainer characters."""
    return text.translate(_ASCII)


class _Page:
    """Draws blocks one below the other."""

    def __init__(self, width: int, colour: bool) -> None:
        self.width = width
        self._console = Console(
            file=StringIO(),
            width=width,
            height=1000,
            color_system="standard" if colour else None,
            force_terminal=colour,
            no_color=not colour,
            markup=False,
            emoji=False,
            highlight=False,
            legacy_windows=False,
            _environ={},
        )

    def text(self) -> str:
        file = self._console.file
        assert isinstance(file, StringIO)
        return "\n".join(line.rstrip() for line in file.getvalue().splitlines()) + "\n"

    def line(self, content: RenderableType = "", indent: int = 0) -> None:
        self._console.print(Padding(content, (0, 0, 0, indent)) if indent else content)

    def prose(self, text: str, style: str = "", indent: int = 0) -> None:
        drawn = Line(visible(text), style=style)
        width = min(self.width, _READABLE + indent)
        for wrapped in drawn.wrap(self._console, width - indent):
            self.line(wrapped, indent)

    def section(self, section: Section) -> None:
        self.line()
        if section.id != "verdict":
            self.line(Line(section.title, style="bold underline" if self._console.color_system else ""))
            if not self._console.color_system:
                self.line("─" * len(section.title))
        if section.lead:
            self.prose(section.lead, "dim")
        maps: list[Heatmap] = []
        for block in section.blocks:
            if isinstance(block, Heatmap):
                maps.append(block)
                continue
            self.heatmaps(maps)
            maps = []
            self.block(block)
        self.heatmaps(maps)

    def block(self, block: Block) -> None:
        match block:
            case Text():
                self.paragraph(block)
            case Verdict():
                self.verdict(block)
            case Facts():
                self.facts(block)
            case Grid():
                self.grid(block)
            case Bars():
                self.lines(glyphs.bars(block, self.width))
            case Story():
                self.story(block)
            case Copyable():
                self.copyable(block)
            case Terms():
                self.terms(block)
            case Heatmap():
                self.heatmaps([block])

    def paragraph(self, block: Text) -> None:
        if block.tone == "caution":
            self.hanging("!", block.text, 1)
        else:
            self.prose(block.text, _TONES[block.tone])

    def verdict(self, block: Verdict) -> None:
        self.prose(f"{_SIGNS[block.status]} {block.sentence}", _STYLES[block.status])
        if block.limit:
            self.prose(f"({block.limit})", indent=2)

    def copyable(self, block: Copyable) -> None:
        self.prose(f"{block.title} ({block.why})" if block.why else block.title)
        self._console.print(Line(visible(block.line), style="bold"), soft_wrap=True)  # whole, to be copied

    def lines(self, lines: Iterable[Line], indent: int = 0) -> None:
        for line in lines:
            self.line(line, indent)

    def facts(self, block: Facts) -> None:
        values = [visible(cell(fact.value)) for fact in block.facts]
        wide = max((len(fact.label) for fact in block.facts), default=0)
        widest = max((len(value) for value in values), default=0)
        for fact, value in zip(block.facts, values, strict=True):
            self.prose(f"{fact.label:<{wide}}  {value:<{widest}}  {fact.note}".rstrip(), indent=2)

    def grid(self, block: Grid, indent: int = 0) -> None:
        if block.folded or not block.rows:
            return
        if block.title:
            self.line(Line(block.title, style="italic"), indent)
        self.line(columns.table(block, self.width - indent, block.brief), indent)
        left = len(block.rows) - block.brief
        if left > 0:
            self.line(Line(f"... {left} more with --format html or json", style="dim"), indent)

    def story(self, story: Story) -> None:
        self.line()
        self.prose(f"{_SIGNS[story.status]} {story.title}  [{story.rule}, {story.status}]", _STYLES[story.status])
        facts = (f"{fact.label} {cell(fact.value)}{f' ({fact.note})' if fact.note else ''}" for fact in story.facts)
        self.prose(" · ".join(facts), "dim", 2)
        wide = max((len(name) for name, _ in story.steps), default=0)
        for name, text in story.steps:
            self.hanging(name, text, wide)
        for grid in story.evidence:
            self.grid(grid, 2)

    def hanging(self, name: str, text: str, wide: int) -> None:
        """A word, and its text wrapped beside it."""
        room = min(self.width, _READABLE) - wide - 4
        for i, wrapped in enumerate(Line(visible(text)).wrap(self._console, room)):
            line = Line.assemble((f"{name if i == 0 else '':<{wide}}", "bold"), "  ")
            self.line(line.append_text(wrapped), 2)

    def terms(self, block: Terms) -> None:
        shown = block.terms[: block.brief]
        wide = max((len(word) for word, _ in shown), default=0)
        for word, meaning in shown:
            self.hanging(word, meaning, wide)
        if len(block.terms) > len(shown):
            self.line(Line(f"... {len(block.terms) - len(shown)} more words with --format html", style="dim"), 2)

    def heatmaps(self, maps: list[Heatmap]) -> None:
        """Side by side, as many as fit in a row."""
        row: list[list[Line]] = []
        for block in maps:
            drawn = glyphs.heatmap(block, self.width)
            if row and sum(_wide(lines) + 4 for lines in row) + _wide(drawn) > self.width:
                self.beside(row)
                row = []
            row.append(drawn)
        if row:
            self.beside(row)

    def beside(self, blocks: list[list[Line]]) -> None:
        for i in range(max(len(lines) for lines in blocks)):
            joined = Line()
            for lines in blocks:
                wide = _wide(lines) + 4
                part = lines[i].copy() if i < len(lines) else Line()
                part.pad_right(wide - part.cell_len)
                joined.append_text(part)
            joined.rstrip()
            self.line(joined)
        self.line()


def _wide(lines: list[Line]) -> int:
    return max(line.cell_len for line in lines)
