"""Export a run for other programs: Perfetto, speedscope, or tables as Parquet or CSV.

  perfetto    all ranks on one clock, with steps, where the time went, waits and findings as tracks of their own;
              open it at ui.perfetto.dev or in any reader of Chrome traces
  speedscope  operators and Python stacks of every thread; open it at speedscope.app
  parquet     every table of the analysis in a folder, each column with its meaning (needs the extra `arrow`)
  csv         the same as text, safe to open in a spreadsheet

examples:
  rankscope export traces/ --to perfetto                         writes rankscope.perfetto.json.gz
  rankscope export traces/ --to perfetto --steps 5-6 -o two.json only these steps, not compressed
  rankscope export traces/ --to speedscope --ranks 3             one rank's threads
  rankscope export traces/ --to csv -o tables/                   tables/attribution.csv and others
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from typing import TYPE_CHECKING, BinaryIO, Final, cast

from rankscope.ui import output
from rankscope.ui.commands.report import loaded, selection

if TYPE_CHECKING:
    from rankscope.run import Run

PLACES: Final = {
    "perfetto": "rankscope.perfetto.json.gz",
    "speedscope": "rankscope.speedscope.json.gz",
    "parquet": "rankscope-tables",
    "csv": "rankscope-tables",
}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    selection(parser)
    parser.add_argument("--to", required=True, choices=tuple(PLACES), help="what to write")
    parser.add_argument(
        "-o",
        "--output",
        metavar="PLACE",
        help="file (compressed if it ends in .gz), or folder of tables; default: here",
    )


def run(args: argparse.Namespace) -> int:
    """Read the run and write it."""
    place = args.output or PLACES[args.to]
    if args.to == "parquet":
        from rankscope.reports.exports import parquet

        parquet.check()  # before anything is read
    found = loaded(args)
    said = {"perfetto": _perfetto, "speedscope": _speedscope}.get(args.to, _tables)(found, place, args.to)
    for warning in found.diagnose().warnings:
        output.say(f"warning: {warning}")
    output.say(f"wrote {place}: {said}")
    return 0


def _perfetto(found: Run, place: str, to: str) -> str:
    from rankscope.reports.exports import perfetto

    with _file(place) as file:
        written = perfetto.write(found.source(), file)
    aside = f", {written.set_aside:,} set aside for their impossible times" if written.set_aside else ""
    return f"{written.events:,} events, {written.beside:,} of them on a lane beside their track{aside}"


def _speedscope(found: Run, place: str, to: str) -> str:
    from rankscope.reports.exports import speedscope

    with _file(place) as file:
        return f"{speedscope.write(found.source(), file):,} events"


def _tables(found: Run, place: str, to: str) -> str:
    from rankscope.reports.exports import columns, csv, parquet

    tables = found.tables()
    try:
        os.makedirs(place, exist_ok=True)
    except OSError as error:
        raise output.Unwritable(f"{place} cannot be made: {error.strerror or error}") from error
    for name, table in tables.items():
        with output.whole_file(os.path.join(place, f"{name}.{to}")) as file:
            if to == "parquet":
                parquet.write(table, file)
            else:
                text = TextIOWrapper(file, "utf-8", newline="")
                csv.write(table, text)
                text.detach()
    kinds = {name: type(table) for name, table in tables.items()}
    output.put(f"# Tables of {found.id}\n\n{columns.markdown(kinds)}", os.path.join(place, "tables.md"))
    output.put(columns.as_json(kinds) + "\n", os.path.join(place, "tables.json"))
    return f"{len(tables)} tables; tables.md says what their columns mean"


@contextmanager
def _file(place: str) -> Iterator[BinaryIO]:
    """A file to stream into, compressed if its name says so."""
    with output.whole_file(place) as file:
        if not place.endswith(".gz"):
            yield file
            return
        from isal import igzip

        packed = igzip.GzipFile(filename="", fileobj=file, mode="wb", mtime=0)  # type: ignore[no-untyped-call]
        with packed:
            yield cast(BinaryIO, packed)
