"""What the columns of exported tables mean, to lie beside them: for people (`tables.md`) and programs (`tables.json`)."""

from __future__ import annotations

import json
from collections.abc import Mapping

from rankscope.analyzers.trace.table import Column, Table

_KINDS = {"i": "integer", "u": "integer", "f": "float", "b": "boolean", "O": "text"}


def kind(column: Column) -> str:
    """What the values of a column are, in a word."""
    return _KINDS[column.dtype.kind]


def markdown(tables: Mapping[str, type[Table]], level: int = 2) -> str:
    """A heading and a table of columns for each table."""
    parts = []
    for name, table in tables.items():
        rows = [
            f"| `{column.name}` | {kind(column)}{', may be absent' if column.nullable else ''} | {_cell(column.doc)} |"
            for column in table.declared.values()
        ]
        about = [" ".join((table.__doc__ or "").split())]
        about += [f"Recorded by `{table.record}`."] if table.record else []
        parts.append(
            "\n".join([f"{'#' * level} {name}", "", *about, "", "| column | type | meaning |", "|---|---|---|", *rows])
        )
    return "\n\n".join(parts) + "\n"


def as_json(tables: Mapping[str, type[Table]]) -> str:
    """The same as JSON: {table: {"about", "columns": {column: {"type", "nullable", "meaning"}}}}."""
    return json.dumps(
        {
            name: {
                "about": " ".join((table.__doc__ or "").split()),
                "columns": {
                    column.name: {"type": kind(column), "nullable": column.nullable, "meaning": column.doc}
                    for column in table.declared.values()
                },
            }
            for name, table in tables.items()
        },
        indent=1,
    )


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
