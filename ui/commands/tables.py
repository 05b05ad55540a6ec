"""Say what the columns of every table mean: results, as Python and the exports give them, and traces, as they are read.

examples:
  rankscope tables                   as Markdown: this is docs/tables.md
  rankscope tables --format json     for a program
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from rankscope.ui import output

if TYPE_CHECKING:
    from rankscope.analyzers.trace.table import Table

ABOUT = """# Tables

Made by `rankscope tables` from the declarations in the code. Times are integer nanoseconds (`_ns`), sizes integer bytes,
shares lie between 0 and 1; [accounting.md](accounting.md) defines the words. A value that may be absent is `<NA>` in
Python, null in Parquet, an empty cell in CSV; it is never 0 for want of knowledge.

"""
RESULTS = """## Results

`rankscope.load("traces/").attribution()` and so on give these as DataFrames, `rankscope export` as CSV or Parquet.

"""
TRACES = """## Traces

What is read from one trace file, as numpy columns: `for rank, trace in run.traces(): trace[HostEvents].start_ns`, with
the tables from `rankscope.analyzers.trace.tables`. Columns called `..._id` that hold text are positions in
`trace.names`, where 0 is the empty text.

"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--format", choices=("markdown", "json"), default="markdown", help="default: markdown")


def run(args: argparse.Namespace) -> int:
    """Show the documentation of the tables."""
    from rankscope.reports.exports import columns

    results, traces = declared()
    output.put(columns.as_json(results | traces) + "\n" if args.format == "json" else page(), None)
    return 0


def declared() -> tuple[dict[str, type[Table]], dict[str, type[Table]]]:
    """The tables of results, and those of traces, by name."""
    from rankscope.analyzers.one_rank.operators import OperatorTable
    from rankscope.analyzers.results.rows import RESULTS as results
    from rankscope.analyzers.trace.tables import TABLES

    return results | {"operators": OperatorTable}, {table.__name__: table for table in TABLES}


def page() -> str:
    """docs/tables.md."""
    from rankscope.reports.exports import columns

    results, traces = declared()
    return ABOUT + RESULTS + columns.markdown(results, 3) + "\n" + TRACES + columns.markdown(traces, 3)
