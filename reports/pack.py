"""A bundle to attach to a ticket: the report in three formats and the tables behind it, no trace, redacted."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Final

from rankscope.analyzers.analysis import Analysis
from rankscope.analyzers.findings import Diagnosis
from rankscope.analyzers.quantities import plural
from rankscope.analyzers.results.rows import RESULTS, results
from rankscope.analyzers.trace.table import Table
from rankscope.reports.exports import columns, csv
from rankscope.reports.redaction import Redactor
from rankscope.reports.renderers import html, json, markdown

_DATE: Final = (1980, 1, 1, 0, 0, 0)  # the same run makes the same bytes


@dataclass(frozen=True, slots=True)
class Member:
    """One file of a bundle."""

    name: str
    about: str
    size: int


def write(analysis: Analysis, diagnosis: Diagnosis, file: BinaryIO, redactor: Redactor | None) -> list[Member]:
    """Write the bundle as a zip archive; what is in it. `redactor` None: as it is."""
    shown = diagnosis if redactor is None else redactor.diagnosis(diagnosis)
    members: list[Member] = []
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, about, text in _contents(analysis, diagnosis, shown, redactor):
            members.append(Member(name, about, _add(archive, name, text)))
        readme = contents(members, redactor)
        members.insert(0, Member("README.md", "this page", _add(archive, "README.md", readme)))
    return members


def _contents(
    analysis: Analysis, diagnosis: Diagnosis, shown: Diagnosis, redactor: Redactor | None
) -> Iterator[tuple[str, str, str]]:
    yield "report.html", "the report as a page", html.render(shown)
    yield "report.md", "the report for a ticket", markdown.render(shown)
    yield "report.json", "the report for programs", json.render(shown)
    for name, table in results(analysis, diagnosis).items():
        yield f"tables/{name}.csv", _about(table), _as_csv(table if redactor is None else redactor.table(table))
    yield "tables/tables.md", "what the columns of the tables mean", f"# Tables\n\n{columns.markdown(RESULTS)}"


def contents(members: list[Member], redactor: Redactor | None) -> str:
    """What is in a bundle, in words."""
    lines = [f"- `{member.name}`, {member.size:,} bytes: {member.about}" for member in members]
    if redactor is None:
        said = "Nothing was redacted: names of hosts, paths and users are as they were recorded."
    else:
        counts = [
            plural(count, kind, "addresses" if kind == "address" else None) for kind, count in redactor.replaced.items()
        ]
        said = (
            f"Hashed, the same text always alike within this bundle: {', '.join(counts) or 'nothing'}. Names of kernels, "
            "operators and devices are as they were recorded: look through them before passing this on."
        )
    return "\n".join(["# A run, packed by rankscope", "", "No trace is in here.", said, "", *lines, ""])


def _about(table: Table) -> str:
    return " ".join((table.__doc__ or "").split()).partition(".")[0] + "."


def _as_csv(table: Table) -> str:
    file = io.StringIO()
    csv.write(table, file)
    return file.getvalue()


def _add(archive: zipfile.ZipFile, name: str, text: str) -> int:
    raw = text.encode("utf-8", "backslashreplace")
    entry = zipfile.ZipInfo(name, _DATE)
    entry.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(entry, raw)
    return len(raw)
