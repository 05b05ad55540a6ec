"""Tables as CSV: absent values are empty, and no text can become a formula of a spreadsheet."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from rankscope.analyzers.trace.table import Table

ENDING = ".csv"
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


class TextFile(Protocol):
    """What is written to."""

    def write(self, text: str, /) -> object:
        """Take text."""


def write(table: Table, file: TextFile) -> None:
    """Write a header and the rows. Cost: one pass, column by column."""
    rows = csv.writer(file, lineterminator="\r\n")
    rows.writerow(table.declared)
    rows.writerows(_rows(table))


def neutral(cell: str) -> str:
    """Text that a spreadsheet does not run: an apostrophe goes before = + - @ and control characters."""
    return f"'{cell}" if cell.startswith(_FORMULA) else cell


def _rows(table: Table) -> Iterator[Sequence[object]]:
    columns: list[Iterable[object]] = []
    for name, column in table.declared.items():
        values = table.columns[name].tolist()
        if column.dtype == object:
            values = [_encodable(neutral(value)) for value in values]
        if column.nullable:
            values = ["" if not ok else value for value, ok in zip(values, table.valid(name).tolist(), strict=True)]
        columns.append(values)
    return zip(*columns, strict=True)


def _encodable(cell: str) -> str:
    return cell.encode("utf-8", "backslashreplace").decode()
