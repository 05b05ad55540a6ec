"""CSV and Parquet: what they say is the report's, what they hold is harmless, what columns mean lies beside them."""

from __future__ import annotations

import csv as reader
import io
import json
import sys

import numpy as np
import pytest
from exports.made import simulated

from rankscope.analyzers.errors import MissingExtra
from rankscope.analyzers.one_rank.operators import OperatorTable
from rankscope.analyzers.results.rows import RESULTS
from rankscope.analyzers.trace.table import Column, Table
from rankscope.reports.exports import columns, csv, parquet

ALL = RESULTS | {"operators": OperatorTable}


class Words(Table):
    """Texts and numbers."""

    text = Column(object, "any | text")
    number = Column(np.int64, "a number", nullable=True)
    flag = Column(np.bool_, "yes or no")


def words(*texts: str) -> Words:
    n = len(texts)
    made = {"text": np.array([*texts, ""], object)[:-1], "number": np.full(n, -7), "flag": np.ones(n, np.bool_)}
    return Words(made, {"number": np.arange(n) != 1})


def as_rows(table: Table) -> list[dict[str, str]]:
    file = io.StringIO()
    csv.write(table, file)
    return list(reader.DictReader(io.StringIO(file.getvalue())))


# ---- CSV -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cell", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1"])
def test_no_text_becomes_a_formula(cell: str) -> None:
    (row,) = as_rows(words(cell))
    assert row["text"] == f"'{cell}"


def test_text_that_is_no_formula_is_left_as_it_is() -> None:
    texts = ["a=1", "void f<a, b>(c*)", 'say "hi"', "two\nlines", "", "'already"]
    assert [row["text"] for row in as_rows(words(*texts))] == texts


def test_numbers_stay_numbers_and_absent_ones_are_empty() -> None:
    assert [(row["number"], row["flag"]) for row in as_rows(words("a", "b"))] == [("-7", "True"), ("", "True")]


def test_a_lone_surrogate_is_spelled_out() -> None:
    (row,) = as_rows(words("a\ud800"))
    assert row["text"] == "a\\ud800"


def test_sums_of_the_tables_are_the_reports() -> None:
    run = simulated()
    tables = {name: as_rows(table) for name, table in run.tables().items()}
    report = run.diagnose()

    def total(name: str, column: str) -> int:
        return sum(int(row[column] or 0) for row in tables[name])

    assert tables.keys() == ALL.keys()
    assert total("attribution", "window_ns") == sum(row.window_ns for row in report.attribution)
    assert total("attribution", "wait_ns") == sum(row.communication.wait_ns for row in report.attribution)
    assert total("waits", "caused_ns") == sum(report.collectives.caused_ns.values()) > 0
    assert total("traffic", "transfer_ns") == total("collectives", "transfer_ns") > 0
    assert total("kernels", "total_ns") == sum(kernel.total_ns for kernel in report.kernels)
    assert [row["rule"] for row in tables["findings"]] == [finding.rule for finding in report.findings]
    assert total("steps", "waited_ns") == sum(report.collectives.waited_ns.values())


# ---- Parquet ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ALL)
def test_parquet_holds_what_csv_holds_and_what_columns_mean(name: str) -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    from pyarrow import parquet as arrow

    table = simulated().tables()[name]
    file = io.BytesIO()
    parquet.write(table, file)
    found = arrow.read_table(io.BytesIO(file.getvalue()))
    assert found.column_names == list(table.declared) and found.num_rows == len(table)
    for column_name, column in table.declared.items():
        assert found.schema.field(column_name).metadata[b"meaning"].decode() == column.doc
        values = found.column(column_name).to_pylist()
        valid = table.valid(column_name)
        assert [v is not None for v in values] == valid.tolist()
        assert [v for v in values if v is not None] == table.columns[column_name][valid].tolist()


def test_without_pyarrow_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(MissingExtra, match=r"pip install 'rankscope\[arrow\]'"):
        parquet.write(words("a"), io.BytesIO())


# ---- what the columns mean -------------------------------------------------------------------------------------------


def test_every_column_is_explained_in_both_documents() -> None:
    page, document = columns.markdown(ALL), json.loads(columns.as_json(ALL))
    for name, table in ALL.items():
        assert f"## {name}\n" in page
        for column in table.declared.values():
            assert f"| `{column.name}` |" in page and column.doc
            assert document[name]["columns"][column.name]["meaning"] == column.doc


def test_a_bar_in_a_meaning_does_not_break_its_row() -> None:
    (row,) = [line for line in columns.markdown({"words": Words}).splitlines() if line.startswith("| `text`")]
    assert row == "| `text` | text | any \\| text |"
