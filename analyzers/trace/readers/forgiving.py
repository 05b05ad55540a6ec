"""The forgiving tier: one event after the other, whatever its types, for what the quick tier cannot hold.

Also reads text that is not strict JSON: NaN, control characters, bad UTF-8; what still fails is counted.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import msgspec
import numpy as np

from rankscope.analyzers.trace.readers import exact_time
from rankscope.analyzers.trace.readers.categories import COUNTS, KINDS, MEMORY, OTHER, TEXTS, Kind
from rankscope.analyzers.trace.readers.columns import Batch, Collectives, Names
from rankscope.analyzers.trace.table import Table
from rankscope.analyzers.trace.tables import DeviceAnnotations, DeviceEvents, Flows

GAP = re.compile(r"[\s,]*")
NEXT_EVENT = re.compile(r'\}\s*,\s*(?=\{\s*"(?:ph|name|cat|pid|ts)")')
WHOLE = re.compile(r"-?[0-9]{1,19}")
END_DIGITS = re.compile(r"(\d{1,18})$")
CHUNK = 1 << 16
Row = dict[str, Any]


@dataclass(slots=True)
class Salvaged:
    """`used`: bytes of the text that are done with; `closed`: the array ended there."""

    events: list[object]
    used: int
    closed: bool


class ForgivingTier:
    """Turns decoded events of any shape into rows, and counts what it leaves out."""

    kinds: Mapping[str, Kind] = KINDS

    def __init__(self, names: Names) -> None:
        self.names = names
        self.skipped = 0
        self.phases: Counter[str] = Counter()
        self.unknown: Counter[str] = Counter()
        self.strict = msgspec.json.Decoder(list[Any], float_hook=Decimal)
        self.lenient = json.JSONDecoder(strict=False, parse_float=Decimal)

    def decode(self, piece: memoryview) -> tuple[int, list[Batch]]:
        """`[event, ...]` -> number of entries and rows; msgspec.DecodeError or RecursionError where it is not JSON."""
        events = self.strict.decode(piece)
        return len(events), self.batches(events)

    def salvage(self, text: bytes, *, last: bool) -> Salvaged:
        """Events of text that begins at an event; an incomplete end stays unused, and counts in the file's `last` text."""
        whole = text.decode("utf-8", "surrogateescape")
        events: list[object] = []
        at, closed, chunk, front = 0, False, "", 0  # chunk = whole[front:...]: what an error costs grows with its text
        size = CHUNK
        while True:
            at = begin = GAP.match(whole, at).end()  # type: ignore[union-attr]
            closed = whole[begin : begin + 1] == "]"
            if closed or begin >= len(whole):
                break
            try:
                event, end = self.lenient.raw_decode(chunk, begin - front)
                events.append(event)
                at, size = front + end, CHUNK
                continue
            except (ValueError, RecursionError, ArithmeticError):
                if begin > front or not chunk:
                    chunk, front = whole[begin : begin + size], begin
                    continue
            after = NEXT_EVENT.search(chunk)
            if after is not None:
                self.skipped += 1
                at, size = front + after.end(), CHUNK
            elif front + size >= len(whole):
                break
            else:
                size *= 4
                chunk = whole[begin : begin + size]
        if last and not closed and at < len(whole):
            self.skipped += 1
        return Salvaged(events, len(whole[:at].encode("utf-8", "surrogateescape")), closed)

    # ---- events -> rows

    def batches(self, events: Iterable[object]) -> list[Batch]:
        """Rows of the events, in order within each table."""
        rows: dict[type[Table], list[Row]] = {}
        collectives: dict[type[Table], Collectives] = {}
        for event in events:
            kind, row, args = self._row(event)
            if row is None or kind.table is None:
                continue
            of_table = rows.setdefault(kind.table, [])
            of_table.append(row)
            if kind.collectives and not _COLLECTIVE_KEYS.isdisjoint(args):
                found = collectives.setdefault(kind.table, Collectives(kind.table is DeviceEvents))
                found.rows.append(len(of_table) - 1)
                self._arguments(args, found.values)
        return [_batch(table, group, collectives.get(table)) for table, group in rows.items()]

    def _row(self, event: object) -> tuple[Kind, Row | None, dict[str, Any]]:
        if not isinstance(event, dict):
            self.skipped += 1
            return OTHER, None, {}
        phase = event.get("ph")
        if isinstance(phase, str):
            self.phases[phase] += 1
        kind = self._kind(event, phase)
        if kind is None or kind.table is None or not isinstance(phase, str) or phase not in kind.phase:
            return OTHER, None, {}
        args = event.get("args")
        args = args if isinstance(args, dict) else {}
        return kind, self._values(event, kind, args), args

    def _kind(self, event: dict[str, Any], phase: object) -> Kind | None:
        category = event.get("cat")
        known = self.kinds.get(category) if isinstance(category, str) else None
        if known is not None:
            return known
        if phase in ("i", "I") and event.get("name") == "[memory]":
            return MEMORY
        if isinstance(category, str) or phase == "X":
            self.unknown[_text(category)] += 1
        return OTHER if phase == "X" else None

    def _values(self, event: dict[str, Any], kind: Kind, args: dict[str, Any]) -> Row | None:
        start = exact_time.from_number(event.get("ts"))
        if start is None:
            self.skipped += 1
            return None
        row: Row = {"at_ns": start, "start_ns": start}
        if kind.phase == "X":
            duration = exact_time.from_number(event.get("dur", 0))
            if duration is None or start + duration > exact_time.LIMIT_NS:
                self.skipped += 1
                return None
            row["dur_ns"] = duration
        for column, keys in kind.numbers.items():
            number = integer(args.get(keys[0]))
            row[column] = integer(args.get(keys[-1])) if number is None else number
        if kind is not MEMORY and not self._track(event, row, kind):
            return None
        if kind.table is Flows:
            row |= {"flow": integer(event.get("id")), "begins": event.get("ph") == "s"}
            return row if row["flow"] is not None else None
        row["name_id"] = self.names[_text(event.get("name"))]
        row["cat_id"] = self.names[_text(event.get("cat"))]
        if kind.shapes and "Input Dims" in args:
            row["shapes_id"] = self.names.add(_text(args["Input Dims"]))
        return row

    def _track(self, event: dict[str, Any], row: Row, kind: Kind) -> bool:
        """Fill in where the event ran; false for events of no process."""
        pid, tid = integer(event.get("pid")), event.get("tid")
        thread = integer(tid)
        if thread is None and isinstance(tid, str) and kind is not OTHER:
            digits = END_DIGITS.search(tid)
            thread = int(digits[1]) if digits else -1 - int(self.names[_text(tid)])
        if pid is None and isinstance(event.get("pid"), str) and row.get("device") is None:
            return False
        row["pid"] = 0 if pid is None else pid
        row["tid"] = 0 if thread is None and kind is not OTHER else thread
        if kind.table in (DeviceEvents, DeviceAnnotations):
            row["device"] = row["pid"] if row["device"] is None else row["device"]
            row["stream"] = row["tid"] if row["stream"] is None else row["stream"]
        return True

    def _arguments(self, args: dict[str, Any], found: dict[str, list[float]]) -> None:
        for column, key in TEXTS.items():
            found[column].append(self.names.add(_text(args.get(key))))
        for column, key in COUNTS.items():
            number = integer(args.get(key))
            exact = number is not None and abs(number) < exact_time.WHOLE_US
            found[column].append(float(number) if number is not None and exact else float("nan"))


_COLLECTIVE_KEYS = frozenset((*TEXTS.values(), *COUNTS.values()))


def integer(value: object) -> int | None:
    """A whole number of 64 bits, also written as text or with a point; None for anything else."""
    if type(value) is int:
        return value if -(2**63) <= value < 2**63 else None
    if isinstance(value, str):
        if not WHOLE.fullmatch(value):
            return None
        value = int(value)
    elif isinstance(value, float | Decimal) and -(2**63) < value < 2**63 and value == int(value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if -(2**63) <= value < 2**63 else None


def _text(value: object) -> str:
    """Text as written; JSON for anything that is no text. Lone surrogates and bad bytes become U+FFFD."""
    if value is None:
        return ""
    if not isinstance(value, str):
        value = json.dumps(value, default=float)
    if value.isascii():
        return value
    try:
        return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    except UnicodeEncodeError:
        return value.encode("utf-8", "replace").decode()


def _batch(table: type[Table], rows: list[Row], found: Collectives | None) -> Batch:
    columns: dict[str, Any] = {}
    valid: dict[str, Any] = {}
    for name, column in table.declared.items():
        values = [row.get(name) for row in rows]
        columns[name] = np.array([0 if value is None else value for value in values], column.dtype)
        if column.nullable and None in values:
            valid[name] = np.array([value is not None for value in values])
    return Batch(table, columns, valid, found)
