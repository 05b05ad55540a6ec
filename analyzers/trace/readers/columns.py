"""Growing columns and interned names: rows are written in place, nothing is copied at the end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from rankscope.analyzers.trace.readers.categories import COUNTS, TEXTS
from rankscope.analyzers.trace.table import Array, Bools, Table
from rankscope.analyzers.trace.tables import TABLES, CollectiveArgs

FIRST_ROWS = 1 << 12
FEW = 1 << 12
MAX_ROWS = 1 << 28  # of one table; a file of 60 GB
MAX_NAMES = 1 << 20
MAX_CHARACTERS = 1 << 27  # of all names together
MAX_TEXT = 1 << 16  # characters of one name, 64 times this of an argument's text
TOO_MANY = "(one of too many names)"


@dataclass(slots=True)
class Collectives:
    """Arguments of collectives: the rows they belong to, and one list a column, of positions of texts or NaN-able numbers."""

    on_device: bool
    rows: list[int] = field(default_factory=list)
    values: dict[str, list[float]] = field(default_factory=lambda: {key: [] for key in (*TEXTS, *COUNTS)})

    def batch(self) -> Batch:
        """Rows of CollectiveArgs."""
        columns: dict[str, Array] = {
            "row": np.array(self.rows, np.int64),
            "on_device": np.full(len(self.rows), self.on_device),
        }
        valid: dict[str, Bools] = {}
        for column, values in self.values.items():
            numbers = np.array(values)
            absent = np.isnan(numbers)
            numbers[absent] = 0.0
            columns[column] = numbers.astype(np.int64)
            if absent.any():
                valid[column] = ~absent
        return Batch(CollectiveArgs, columns, valid)


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows for one table, from one piece of text, and the collectives' arguments that belong to some of them."""

    table: type[Table]
    columns: Mapping[str, Array]
    valid: Mapping[str, Bools] = field(default_factory=dict)
    collectives: Collectives | None = None

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))


class Names(dict[str, float]):
    """Text -> position, growing; positions are floats because the decoder's records hold nothing else."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.room = MAX_CHARACTERS
        self.too_many = self.too_long = False
        self.raw: dict[bytes, float] = {}
        self[""]

    def __missing__(self, text: str) -> float:
        if len(text) > MAX_TEXT:
            self.too_long = True
            return self[text[: MAX_TEXT - 1] + "…"]
        return self.add(text)

    def add(self, text: str) -> float:
        """The position of a text of up to 64 times the length of a name."""
        found = self.get(text)
        if found is not None:
            return found
        if len(text) > 64 * MAX_TEXT:
            self.too_long = True
            return self.add(text[: 64 * MAX_TEXT - 1] + "…")
        if (len(self.texts) >= MAX_NAMES or len(text) > self.room) and text != TOO_MANY:
            self.too_many = True
            return self.add(TOO_MANY)
        self.room -= len(text)
        found = self[text] = float(len(self.texts))
        self.texts.append(text)
        return found

    def warnings(self) -> list[str]:
        """The caps that were hit, in plain words."""
        said = []
        if self.too_many:
            said.append(f"over {MAX_NAMES} distinct names or {MAX_CHARACTERS} characters: the rest is {TOO_MANY}")
        if self.too_long:
            said.append(f"a name is longer than {MAX_TEXT} characters and was cut")
        return said


class Growing:
    """One table's columns. `ndarray.resize` is realloc: large columns move by remapping pages, not by copying."""

    def __init__(self, table: type[Table]) -> None:
        self.table = table
        self.rows = 0
        self.columns = {name: np.empty(FIRST_ROWS, column.dtype) for name, column in table.declared.items()}
        self.valid: dict[str, Array] = {}

    def append(self, batch: Batch) -> None:
        """Write the batch behind the rows that are there; columns it lacks are 0."""
        at, end = self.rows, self.rows + len(batch)
        room = len(next(iter(self.columns.values())))
        if end > room:
            self._grow(max(end, room + (room >> 3)) if room > 1 << 16 else max(end, 2 * room))
        for name, column in self.columns.items():
            column[at:end] = batch.columns.get(name, 0)
        for name in batch.valid:
            if name not in self.valid:
                self.valid[name] = np.empty(len(next(iter(self.columns.values()))), np.bool_)
                self.valid[name][:at] = True
        for name, column in self.valid.items():
            column[at:end] = batch.valid.get(name, True)
        self.rows = end

    def _grow(self, rows: int) -> None:
        for column in (*self.columns.values(), *self.valid.values()):
            column.resize(rows, refcheck=False)

    def finish(self) -> Table:
        """The table; the columns are its own from here on."""
        self._grow(self.rows)
        valid: dict[str, Bools] = dict(self.valid)  # type: ignore[arg-type]
        return self.table(self.columns, valid)


class Tables:
    """All tables of one file while it is read."""

    def __init__(self) -> None:
        self.names = Names()
        self.growing = {table: Growing(table) for table in TABLES}
        self.waiting = {on_device: Collectives(on_device) for on_device in (False, True)}
        self.full = False

    def append(self, batches: list[Batch]) -> None:
        """Take the batches of one piece, in order."""
        for batch in batches:
            growing = self.growing[batch.table]
            if growing.rows + len(batch) > MAX_ROWS:
                self.full = True
                continue
            if batch.collectives is not None:
                self._collect(batch.collectives, growing.rows)
            growing.append(batch)

    def _collect(self, found: Collectives, first: int) -> None:
        """Keep them as lists until they are worth an array: most pieces hold a few."""
        waiting = self.waiting[found.on_device]
        waiting.rows += [first + row for row in found.rows]
        for column, values in found.values.items():
            waiting.values[column] += values
        if len(waiting.rows) > FEW:
            self._settle(found.on_device)

    def _settle(self, on_device: bool) -> None:
        if self.waiting[on_device].rows:
            self.growing[CollectiveArgs].append(self.waiting[on_device].batch())
        self.waiting[on_device] = Collectives(on_device)

    def finish(self) -> Mapping[type[Table], Table]:
        """The tables that have rows."""
        self._settle(False)
        self._settle(True)
        return {table: growing.finish() for table, growing in self.growing.items() if growing.rows}

    def warnings(self) -> list[str]:
        """The caps that were hit, in plain words."""
        return [*self.names.warnings(), *([f"more than {MAX_ROWS} rows in a table"] if self.full else [])]
