"""Typed columnar tables: a column is declared once, with its dtype and its meaning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Self, overload

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.generic]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


class Column:
    """One column. Read from the class it is its declaration, read from a table it is the array.

    A nullable column stores 0 where the value is absent; `Table.valid` tells which rows have one.
    """

    def __init__(self, dtype: npt.DTypeLike, doc: str, *, nullable: bool = False) -> None:
        self.dtype: np.dtype[np.generic] = np.dtype(dtype)
        self.doc = doc
        self.nullable = nullable
        self.name = ""

    def __set_name__(self, owner: type[Table], name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: type[Table]) -> Column: ...
    @overload
    def __get__(self, instance: Table, owner: type[Table]) -> Ints: ...
    def __get__(self, instance: Table | None, owner: type[Table]) -> Column | Ints:
        if instance is None:
            return self
        return instance.columns[self.name]  # type: ignore[return-value]


class Table:
    """Base of every table. `Table(columns)` is the only door in: dtypes and lengths are checked there."""

    declared: ClassVar[dict[str, Column]] = {}
    record: ClassVar[str] = ""  # the copyable line that records this table
    __slots__ = ("_valid", "columns")

    def __init_subclass__(cls) -> None:
        cls.declared = {name: c for name, c in vars(cls).items() if isinstance(c, Column)}

    def __init__(self, columns: Mapping[str, Array], valid: Mapping[str, Bools] | None = None) -> None:
        """Take arrays of one length, one per declared column; ValueError names what does not fit."""
        kept: dict[str, Array] = {}
        for name, column in self.declared.items():
            if name not in columns:
                raise ValueError(f"{type(self).__name__}: column {name} is missing")
            kept[name] = np.ascontiguousarray(columns[name], dtype=column.dtype)
        if len({len(array) for array in kept.values()}) > 1:
            raise ValueError(f"{type(self).__name__}: columns differ in length")
        self.columns = kept
        self._valid = {name: mask for name, mask in (valid or {}).items() if not mask.all()}
        for name, mask in self._valid.items():
            if not self.declared[name].nullable or len(mask) != len(self):
                raise ValueError(f"{type(self).__name__}: {name} cannot have this mask of absent values")

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def valid(self, name: str) -> Bools:
        """Rows in which the nullable column `name` has a value."""
        mask = self._valid.get(name)
        return np.ones(len(self), np.bool_) if mask is None else mask

    def ints(self, name: str) -> Ints:
        """A column of whole numbers by its name, for code that serves several tables."""
        return self.columns[name]  # type: ignore[return-value]

    @property
    def masks(self) -> Mapping[str, Bools]:
        """The masks of the columns in which something is absent."""
        return self._valid

    def take(self, rows: Ints | Bools) -> Self:
        """The rows at these positions, or where this mask is true."""
        return type(self)(
            {name: array[rows] for name, array in self.columns.items()},
            {name: mask[rows] for name, mask in self._valid.items()},
        )

    @classmethod
    def empty(cls) -> Self:
        """A table without rows."""
        return cls({name: np.empty(0, column.dtype) for name, column in cls.declared.items()})
