"""Tables as Parquet, each column with its meaning in the file. Needs pyarrow: the extra `arrow`."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

from rankscope.analyzers.errors import MissingExtra
from rankscope.analyzers.trace.table import Table

if TYPE_CHECKING:
    import pyarrow

ENDING = ".parquet"
_TYPES = {"i": "int64", "f": "double", "b": "bool", "O": "string"}


def check() -> None:
    """MissingExtra when pyarrow is not installed."""
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError as error:
        raise MissingExtra("Parquet", "pyarrow", "arrow") from error


def write(table: Table, file: BinaryIO) -> None:
    """Write the table; absent values are null. MissingExtra without pyarrow."""
    check()
    from pyarrow import parquet

    parquet.write_table(_arrow(table), file, compression="zstd")


def _arrow(table: Table) -> pyarrow.Table:
    import pyarrow

    arrays, fields = [], []
    for name, column in table.declared.items():
        values, absent = table.columns[name], ~table.valid(name)
        kind = pyarrow.type_for_alias(_TYPES[column.dtype.kind])
        if column.dtype == object:
            texts = [value.encode("utf-8", "backslashreplace").decode() for value in values.tolist()]
            arrays.append(pyarrow.array(texts, kind, mask=absent))
        else:
            arrays.append(pyarrow.array(values, mask=absent).cast(kind))
        fields.append(pyarrow.field(name, kind, nullable=column.nullable, metadata={"meaning": column.doc}))
    about = {"about": " ".join((table.__doc__ or "").split()), "made by": "rankscope"}
    return pyarrow.Table.from_arrays(arrays, schema=pyarrow.schema(fields, metadata=about))
