"""What a report is made of: a few kinds of content whose values still carry their units.

A section builds blocks and knows no renderer; a renderer draws blocks and knows no section.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rankscope.analyzers.findings import Severity

Unit = Literal["ns", "bytes", "share", "count", "bytes_per_s", "gpu_hours", "money", "ppb", "factor", "text"]
Tone = Literal["plain", "muted", "caution"]
Status = Literal["critical", "warning", "note", "ok", "unknown"]


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number with its unit; None is what nobody recorded, and is shown as such, never as 0."""

    value: int | float | None
    unit: Unit


@dataclass(frozen=True, slots=True)
class Name:
    """A name out of a trace: data, never markup; shortened in the middle where room is short."""

    text: str


Cell = str | Quantity | Name


@dataclass(frozen=True, slots=True)
class Text:
    """A paragraph."""

    text: str
    tone: Tone = "plain"


@dataclass(frozen=True, slots=True)
class Copyable:
    """A line to paste into a script, what it is for, and what it brings."""

    title: str
    why: str
    line: str


@dataclass(frozen=True, slots=True)
class Fact:
    """One figure worth a tile: what it is, its value, and one line on how it was got."""

    label: str
    value: Cell
    note: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """Figures side by side."""

    facts: tuple[Fact, ...]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a grid; `doc` says what the figure means."""

    title: str
    numeric: bool = True
    doc: str = ""


@dataclass(frozen=True, slots=True)
class Grid:
    """A table. `brief` rows are enough where room is short; `folded`: shown on demand where the medium can."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    brief: int = 12
    folded: bool = False


@dataclass(frozen=True, slots=True)
class Part:
    """One segment of a stacked bar: which bucket (a key of `buckets.BUCKETS`) and how long, in nanoseconds."""

    bucket: str
    ns: float


@dataclass(frozen=True, slots=True)
class Bar:
    """One stacked bar. `why` says why it stands out, where it does."""

    label: str
    parts: tuple[Part, ...]
    total_ns: float
    why: str = ""


@dataclass(frozen=True, slots=True)
class Bars:
    """Stacked bars on one scale: `lead` worth a look, then `rest`, which `rest_mean` sums up where room is short."""

    title: str
    lead: tuple[Bar, ...]
    rest: tuple[Bar, ...] = ()
    rest_mean: Bar | None = None


@dataclass(frozen=True, slots=True)
class Heatmap:
    """A value for each (row, column); None: not recorded. `lead`: indices of rows worth showing where room is short.

    `faint` columns are kept out of the rules (partial and warm-up steps). `hue` is the bucket whose colour it takes.
    """

    title: str
    row_axis: str
    column_axis: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: tuple[tuple[int | float | None, ...], ...]
    unit: Unit = "ns"
    hue: str = "kernel"
    from_zero: bool = False
    faint: frozenset[int] = frozenset()
    lead: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Story:
    """A finding as a story in steps (problem, where, what to do, expected result) with the figures it rests on."""

    status: Severity
    title: str
    rule: str
    cost: Quantity
    facts: tuple[Fact, ...]
    steps: tuple[tuple[str, str], ...]
    evidence: tuple[Grid, ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """The whole report in one sentence, and what limits it."""

    status: Status
    sentence: str
    limit: str = ""


@dataclass(frozen=True, slots=True)
class Terms:
    """Words and what they mean; `brief` of them are enough where room is short."""

    terms: tuple[tuple[str, str], ...]
    brief: int = 6


Block = Text | Copyable | Facts | Grid | Bars | Heatmap | Story | Verdict | Terms


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the report. `id` is its anchor; `detail` sections are for those who check; folded where possible."""

    id: str
    title: str
    blocks: tuple[Block, ...]
    lead: str = ""
    detail: bool = False
