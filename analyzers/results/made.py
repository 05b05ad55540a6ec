"""A table made of rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

import numpy as np

from rankscope.analyzers.trace.table import Table

T = TypeVar("T", bound=Table)


def table_of(kind: type[T], rows: Iterable[Sequence[object]]) -> T:
    """A table from rows in the order of its declaration; None is absent."""
    taken = list(rows)
    columns: dict[str, np.ndarray[tuple[int], np.dtype[np.generic]]] = {}
    valid = {}
    for position, (name, column) in enumerate(kind.declared.items()):
        values = [row[position] for row in taken]
        blank = "" if column.dtype == object else 0
        array = np.empty(len(values), column.dtype)
        array[:] = [blank if value is None else value for value in values]
        columns[name] = array
        if column.nullable:
            valid[name] = np.array([value is not None for value in values], np.bool_)
    return kind(columns, valid)
