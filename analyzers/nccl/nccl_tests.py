"""The tables that nccl-tests prints: for each message size the time, and what it means as bandwidth.

Which columns there are depends on the version and the collective, so that the header line is read. Where NCCL's log
runs into the table, a row is cut: its pieces are put together again, and a row that stays short is counted.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from rankscope.analyzers.nccl.messages import messages

_TASK: Final = re.compile(r"^\s{0,8}\d{1,6}:\s")
_AVERAGE: Final = re.compile(r"#\s*Avg bus bandwidth\s*:\s*([\d.]{1,20})")
_WIDEST: Final = 24
_MOST: Final = 100_000
_ABSENT: Final = "N/A"


@dataclass(frozen=True, slots=True)
class Row:
    """One message size; bandwidths in 10^9 bytes a second, as the tool prints them."""

    size_bytes: int
    type: str
    out_of_place_us: float
    out_of_place_algbw_gb_per_s: float
    out_of_place_busbw_gb_per_s: float
    in_place_us: float
    in_place_algbw_gb_per_s: float
    in_place_busbw_gb_per_s: float


@dataclass(frozen=True, slots=True)
class Table:
    """All rows of a file, in its order."""

    rows: tuple[Row, ...]
    average_busbw_gb_per_s: float | None
    cut_rows: int


def read(lines: Iterable[str]) -> Table:
    """The table from the lines of a file; without rows if there is none."""
    rows: list[Row] = []
    header: list[str] = []
    pending: list[str] = []
    average, cut = None, 0
    for line in lines:
        text = _own(line)
        if text.lstrip().startswith("#"):
            names = text.replace("#", " ").split()
            header = names if names[:2] == ["size", "count"] and names.count("busbw") == 2 else header
            average = _average(text, average)
            continue
        words = text.split()
        if not header or not words or len(words) > _WIDEST:
            continue
        if _begins(words):
            cut += bool(pending)
            pending = words
        elif pending and all(word == _ABSENT or _number(word) is not None for word in words):
            pending = pending + words
        if len(pending) >= len(header):
            row = _row(header, pending)
            cut += row is None
            if row is not None and len(rows) < _MOST:
                rows.append(row)
            pending = []
    return Table(tuple(rows), average, cut + bool(pending))


def _own(line: str) -> str:
    """What of the line is the table's: no task number before it, no message of NCCL after it."""
    if found := messages(line):
        line = line[: found[0].start]
    return _TASK.sub("", line, count=1)


def _average(text: str, known: float | None) -> float | None:
    found = _AVERAGE.search(text)
    return known if found is None else _number(found[1])


def _begins(words: list[str]) -> bool:
    return (
        len(words) > 2
        and words[0].isdecimal()
        and words[1].isdecimal()
        and words[2][0].isalpha()
        and words[2] != _ABSENT
    )


def _row(header: list[str], words: list[str]) -> Row | None:
    first = header.index("time") if "time" in header else len(header)
    second = header.index("time", first + 1) if header.count("time") == 2 else len(header)
    if len(words) != len(header) or second + 3 > len(header) or len(words[0]) > 20:
        return None
    figures = [_number(word) for start in (first, second) for word in words[start : start + 3]]
    if any(figure is None for figure in figures):
        return None
    return Row(int(words[0]), words[2][:20], *(figure for figure in figures if figure is not None))


def _number(word: str) -> float | None:
    try:
        value = float(word)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
