"""Blocks as HTML. Layout is the style sheet's; what a block means is in its elements and their roles."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import groupby

from rankscope.analyzers.quantities import duration, exact_ns, share
from rankscope.reports import figures, heat
from rankscope.reports.blocks import (
    Bar,
    Bars,
    Block,
    Cell,
    Column,
    Copyable,
    Fact,
    Facts,
    Grid,
    Heatmap,
    Name,
    Quantity,
    Story,
    Terms,
    Text,
    Verdict,
)
from rankscope.reports.buckets import ALL_BUCKETS
from rankscope.reports.format import cell, exact
from rankscope.reports.names import shortened
from rankscope.reports.renderers.markup import escaped, tag

MOST_ROWS = 1_000  # rows of a grid; JSON has all of them
_MOST_MAP_ROWS = 128
_MOST_REST = 256
_TALL = 16  # more rows scroll in their own frame
_NAME_MOST, _NAME_TOLD = 140, 1_000
_WORDS = {"critical": "critical", "warning": "warning", "note": "note", "ok": "nothing found", "unknown": "cannot tell"}


def html_all(blocks: Iterable[Block]) -> str:
    """Blocks in order; narrow heat maps that follow each other share a row where the page is wide."""
    out = []
    for narrow, group in groupby(blocks, key=lambda block: isinstance(block, Heatmap) and _breadth(block) != "many"):
        drawn = "".join(map(html, group))
        out.append(tag("div", drawn, class_="maps") if narrow else drawn)
    return "".join(out)


def html(block: Block) -> str:
    """Any block."""
    match block:
        case Text():
            return tag("p", escaped(block.text), class_=f"text {block.tone}")
        case Verdict():
            return _verdict(block)
        case Facts():
            return _facts(block.facts)
        case Grid():
            return _grid(block)
        case Bars():
            return _bars(block)
        case Heatmap():
            return _heatmap(block)
        case Story():
            return _story(block)
        case Copyable():
            return _copyable(block)
        case Terms():
            words = (tag("dt", escaped(word)) + tag("dd", escaped(meaning)) for word, meaning in block.terms)
            return tag("dl", "".join(words), class_="terms")


def _verdict(block: Verdict) -> str:
    badge = tag("span", escaped(_WORDS[block.status]), class_=f"badge s-{block.status}")
    limit = tag("p", escaped(block.limit[:1].upper() + block.limit[1:] + "."), class_="limit") if block.limit else ""
    sentence = tag("p", escaped(block.sentence), class_="sentence")
    return tag("div", badge + sentence + limit, class_=f"verdict s-{block.status}")


def _facts(facts: Iterable[Fact]) -> str:
    tiles = (
        tag(
            "div",
            tag("dt", escaped(fact.label))
            + tag("dd", escaped(cell(fact.value)), title=exact(fact.value) or None)
            + (tag("dd", escaped(fact.note), class_="note") if fact.note else ""),
        )
        for fact in facts
    )
    return tag("dl", "".join(tiles), class_="facts")


def _story(story: Story) -> str:
    badge = tag("span", escaped(story.status), class_=f"badge s-{story.status}")
    head = tag("header", badge + tag("h3", escaped(story.title)) + tag("code", escaped(story.rule), class_="rule"))
    steps = "".join(tag("dt", escaped(name)) + tag("dd", escaped(text)) for name, text in story.steps)
    figures_, *events = map(html, story.evidence) if story.evidence else ("",)
    told = tag("div", tag("dl", steps, class_="steps") + figures_, class_="story-body")
    pointers = tag("details", tag("summary", "Events to look at") + "".join(events)) if events else ""
    body = head + _facts(story.facts) + told + pointers
    return tag("article", body, class_=f"story s-{story.status}")


def _copyable(block: Copyable) -> str:
    button = tag("button", "Copy", type="button", class_="copy", hidden=True, aria_label=f"Copy: {block.line}")
    told = tag("p", tag("strong", escaped(block.title)) + (f" {escaped(block.why)}" if block.why else ""))
    return tag("div", told + tag("div", tag("code", escaped(block.line)) + button, class_="line"), class_="copyable")


# ---- tables ----------------------------------------------------------------------------------------------------


def _grid(block: Grid) -> str:
    if not block.rows:
        return ""
    rows = block.rows[:MOST_ROWS]
    head = "".join(
        tag("th", escaped(column.title), scope="col", class_="n" if column.numeric else None, title=column.doc or None)
        for column in block.columns
    )
    titled = any(column.title for column in block.columns)
    body = "".join(tag("tr", _cells(row, block.columns)) for row in rows)
    kept = tag("thead", tag("tr", head)) if titled else ""
    kind = "sortable" if titled and len(rows) > 2 else "plain"
    table = tag("table", kept + tag("tbody", body), class_=kind, aria_label=block.title or None)
    scroller = tag(
        "div",
        table,
        class_="scroll tall" if len(rows) > _TALL else "scroll",
        tabindex=0,
        role="group",
        aria_label=block.title or block.columns[0].title,
    )
    if len(block.rows) > len(rows):
        scroller += tag("p", f"{len(block.rows) - len(rows)} more rows in the JSON report.", class_="text muted")
    scroller += _column_words(block.columns)
    if block.folded:
        return tag("details", tag("summary", escaped(block.title)) + scroller, class_="fold")
    return (tag("h3", escaped(block.title)) if block.title else "") + scroller


def _column_words(columns: Iterable[Column]) -> str:
    words = "".join(tag("dt", escaped(c.title)) + tag("dd", escaped(c.doc)) for c in columns if c.doc)
    if not words:
        return ""
    return tag("details", tag("summary", "What the columns mean") + tag("dl", words, class_="terms"), class_="words")


def _cells(row: Iterable[Cell], columns: Iterable[Column]) -> str:
    first, out = True, []
    for content, column in zip(row, columns, strict=True):
        out.append(_cell(content, column, "th" if first and not column.numeric else "td"))
        first = False
    return "".join(out)


def _cell(content: Cell, column: Column, element: str) -> str:
    scope = "row" if element == "th" else None
    if isinstance(content, Name):
        full = content.text[:_NAME_TOLD] if len(content.text) > _NAME_MOST else None
        return tag(
            element,
            escaped(shortened(content.text, _NAME_MOST)),
            class_="name long" if len(content.text) > 30 else "name",
            title=full,
            scope=scope,
        )
    if isinstance(content, Quantity):
        kind = "n unknown" if content.value is None else "n zero" if content.value == 0 else "n"
        value = None if content.value is None else f"{content.value:.15g}"
        return tag(
            element, escaped(cell(content)), class_=kind, title=exact(content) or None, data_v=value, scope=scope
        )
    return tag(element, escaped(content), class_="n" if column.numeric else None, scope=scope)


# ---- figures ---------------------------------------------------------------------------------------------------


def _bars(block: Bars) -> str:
    shown = [*block.lead, *([block.rest_mean] if block.rest_mean else [])]
    everyone = [*block.lead, *block.rest]
    scale = max((bar.total_ns for bar in everyone), default=0)
    figure = "".join(_bar(bar, scale) for bar in shown)
    if block.rest:
        rest = "".join(_bar(bar, scale) for bar in block.rest[:_MOST_REST])
        if len(block.rest) > _MOST_REST:
            rest += tag("p", f"{len(block.rest) - _MOST_REST} more in the JSON report.", class_="text muted")
        figure += tag("details", tag("summary", f"The other {len(block.rest)}, one by one") + rest, class_="fold")
    return tag("figure", _legend(everyone) + figure, class_="bars")


def _bar(bar: Bar, scale: float) -> str:
    total = tag("span", escaped(duration(bar.total_ns)), class_="total", title=exact_ns(bar.total_ns))
    label = tag("span", escaped(bar.label), class_="label")
    why = tag("span", escaped(bar.why), class_="why") if bar.why else ""
    return tag("div", label + figures.bar(bar, scale) + total + why, class_="bar-row")


def _legend(bars: Iterable[Bar]) -> str:
    """Each bucket that occurs, with its share of all bars together."""
    sums: dict[str, float] = {}
    whole = 0.0
    for bar in bars:
        whole += bar.total_ns
        for part in bar.parts:
            sums[part.bucket] = sums.get(part.bucket, 0.0) + part.ns
    entries = (
        tag(
            "li",
            figures.swatch(bucket.key) + escaped(bucket.label) + tag("span", share(sums[bucket.key] / whole)),
            title=bucket.doc,
            data_bucket=bucket.key,
        )
        for bucket in ALL_BUCKETS
        if sums.get(bucket.key) and whole
    )
    return tag("ul", "".join(entries), class_="legend")


def _heatmap(block: Heatmap) -> str:
    if not block.columns or not block.rows:
        return ""
    if len(block.rows) > _MOST_MAP_ROWS:
        block = heat.leading_rows(replace(block, lead=block.lead or tuple(range(_MOST_MAP_ROWS))))
    block = heat.at_most(block, figures.MOST_COLUMNS)
    caption = tag("figcaption", tag("strong", escaped(block.title)) + figures.heatmap_scale(block))
    axis = tag("span", escaped(block.column_axis), class_="axis-name")
    body = tag(
        "div",
        figures.heatmap_rows(block) + figures.heatmap_cells(block) + axis + figures.heatmap_columns(block),
        class_="heat-grid",
    )
    return tag("figure", caption + body, class_=f"heatmap {_breadth(block)}")


def _breadth(block: Heatmap) -> str:
    columns = len(block.columns)
    return "few" if columns <= 4 else "some" if columns <= 8 else "many"
