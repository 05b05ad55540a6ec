"""CSV and Parquet: what they say is the report's, what they hold is harmless, what columns mean lies beside them."""

from __future__ import annotations

import csv as reader
import io
import json
import sys
from collections import Counter

import numpy as np
import pytest
from corpus import corpus
from exports.made import simulated

import rankscope
from rankscope.analyzers.errors import MissingExtra
from rankscope.analyzers.one_rank.operators import OperatorTable
from rankscope.analyzers.results.rows import RESULTS
from rankscope.analyzers.trace.table import Column, Table
from rankscope.reports.exports import columns, csv, parquet
from rankscope.reports.renderers import json as json_report
from rankscope.run import Run

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


RUNS = [
    "simulated",
    "gloo-4rank/fsdp_slow_rank",
    "kineto-dlrm-8rank",
    "kineto-torchrec-4rank/late-rank",
    "tracelens/resnet_act_checkpoint.json.gz",
    "megatronapp-pp4/pipeline-4.json.gz",
]


def made(name: str) -> Run:
    return simulated() if name == "simulated" else rankscope.load(corpus(name), cache=False, jobs=1)


@pytest.mark.parametrize("name", RUNS)
def test_sums_of_the_tables_are_the_reports(name: str) -> None:
    run = made(name)
    tables = {name: as_rows(table) for name, table in run.tables().items()}
    report = json.loads(json_report.render(run.diagnose()))

    def total(name: str, column: str) -> int:
        return sum(int(row[column] or 0) for row in tables[name])

    def reported(path: str) -> int:
        """Of every row of the attribution; what is absent counts as nothing, as the empty cell does."""
        values = report["attribution"]
        for key in path.split("."):
            values = [value and value.get(key) for value in values]
        return sum(value or 0 for value in values)

    assert tables.keys() == ALL.keys()
    for column in ("window_ns", "compute_ns", "communication_ns", "io_ns", "host_ns", "idle_ns"):
        assert total("attribution", column) == reported(column), column
    for parent, column in (("communication", "wait_ns"), ("communication", "transfer_ns"), ("compute", "kernel_ns")):
        assert total("attribution", column) == reported(f"{parent}.{column}"), column
    assert total("attribution", "window_ns") > 0
    collectives = report["collectives"]
    assert total("waits", "caused_ns") == sum(collectives["caused_ns"].values())
    assert total("waits", "waited_ns") == total("steps", "waited_ns") == sum(collectives["waited_ns"].values())
    assert total("traffic", "transfer_ns") == sum(group["transfer_ns"] for group in collectives["by_group"])
    assert total("collectives", "wait_ns") == sum(group["wait_ns"] for group in collectives["by_group"])
    by_kernel: Counter[tuple[str, str]] = Counter()
    for row in tables["kernels"]:
        by_kernel[row["name"].removeprefix("'"), row["kind"]] += int(row["total_ns"])
    heaviest = {(kernel["name"], kernel["kind"]): kernel["total_ns"] for kernel in report["kernels"]}
    assert {key: by_kernel[key] for key in heaviest} == heaviest  # the report leaves the lighter ones out
    assert [row["rule"] for row in tables["findings"]] == [finding["rule"] for finding in report["findings"]]


def test_the_tables_of_a_run_with_a_late_rank_are_not_all_zero() -> None:
    tables = {name: as_rows(table) for name, table in simulated().tables().items()}
    for name, column in (("waits", "caused_ns"), ("collectives", "transfer_ns"), ("steps", "waited_ns")):
        assert sum(int(row[column] or 0) for row in tables[name]) > 0


# ---- Parquet ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("run", ["simulated", "gloo-4rank/fsdp_slow_rank", "kineto-torchrec-4rank/late-rank"])
@pytest.mark.parametrize("name", ALL)
def test_parquet_holds_what_csv_holds_and_what_columns_mean(name: str, run: str) -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    from pyarrow import parquet as arrow

    table = made(run).tables()[name]
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
