"""Ascend's own tables of steps: read as they are, beside ours where the traces are there, and never taken for a trace."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from corpus import corpus

from rankscope.analyzers.errors import UnreadableTrace
from rankscope.analyzers.interop.ascend_steps import StepTimes, read, tables
from rankscope.ui import cli

CLUSTER = (
    "Step,Type,Index,Computing,Communication(Not Overlapped),Overlapped,Communication,Free,Stage,Bubble\n"
    "2,rank,0,20.5,30.25,1.5,31.75,9,59.75,0\n2,rank,1,N/A,30.0000000001,0,30,9,60,0\n"
    '2,stage,"(0, 1)",20.5,30.25,1.5,31.75,9,60,0\n'
)
OWN = "Device_id,Step,Computing,Communication(Not Overlapped),Overlapped,Communication,Free,Stage\n0,,6.0,4.0,0.0,4.0,2.0,12\n"
PYTHON, CANN, NPU, HCCL = 70, 71, 800, 900


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    hook = sys.excepthook
    yield
    sys.excepthook = hook


def written(path: Path, text: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return str(path)


def trace() -> str:
    """6 us of compute, then 4 us of a collective, begun 2 us after the operator that is all there is of the host."""

    def timed(pid: int, name: str, at: int, dur: float, **more: Any) -> dict[str, Any]:
        return {
            "ph": "X",
            "name": name,
            "pid": pid,
            "tid": 2,
            "ts": f"{1_704_161_511_420_000 + at}.000",
            "dur": dur,
        } | more

    def named(kind: str, pid: int, name: str) -> dict[str, Any]:
        return {"ph": "M", "name": kind, "pid": pid, "tid": 2, "args": {"name": name}}

    return json.dumps(
        [
            timed(PYTHON, "aten::mm", 0, 12, cat="cpu_op"),
            timed(NPU, "MatMul", 2, 6, args={"connection_id": 0}),
            timed(HCCL, "hcom_allReduce_", 8, 4),
            named("process_name", PYTHON, "Python"),
            named("process_name", NPU, "Ascend Hardware"),
            named("process_name", HCCL, "HCCL"),
            named("thread_name", HCCL, "Group 1 Communication"),
        ]
    )


def test_rows_of_ranks_are_read_and_those_of_stages_left_out(tmp_path: Path) -> None:
    path = written(tmp_path / "cluster_step_trace_time.csv", CLUSTER)
    assert read(path) == [
        StepTimes(path, 0, "2", 20_500, 30_250, 1_500, 9_000),
        StepTimes(path, 1, "2", None, 30_000, 0, 9_000),
    ]


@pytest.mark.parametrize("text", ["", "a,b\n1,2\n", "Computing\n1\n", "\0\n"])
def test_another_table_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(UnreadableTrace, match="table"):
        read(written(tmp_path / "step_trace_time.csv", text))


def test_tables_are_found_by_their_names_in_folders(tmp_path: Path) -> None:
    own = written(tmp_path / "a/ASCEND_PROFILER_OUTPUT/step_trace_time.csv", OWN)
    written(tmp_path / "a/ASCEND_PROFILER_OUTPUT/kernel_details.csv", OWN)
    renamed = written(tmp_path / "renamed.csv", CLUSTER)
    assert tables([str(tmp_path)]) == [own] and tables([renamed, str(tmp_path / "a")]) == sorted([renamed, own])


def test_a_table_alone_is_printed_and_says_what_it_cannot_tell(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["ascend", written(tmp_path / "cluster_step_trace_time.csv", CLUSTER)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines[2:4]] == [
        ["0", "2", "20.500", "30.250", "1.500", "9.000"],
        ["1", "2", "n/a", "30.000", "0.000", "9.000"],
    ]
    assert "trace_view.json of each rank" in lines[-1]


def test_beside_its_trace_both_figures_are_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written(tmp_path / "rank_3/trace_view.json", trace())
    written(tmp_path / "rank_3/step_trace_time.csv", OWN)
    assert cli.main(["ascend", str(tmp_path), "--no-cache"]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[2].split() == [
        "3",
        "all",
        "6.000",
        "6.000",
        "4.000",
        "4.000",
        "0.000",
        "0.000",
        "2.000",
        "2.000",
    ]
    assert "where its profiler says" in out


def test_without_a_table_it_says_what_it_looks_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["ascend", str(tmp_path)]) == 2
    assert "no cluster_step_trace_time.csv or step_trace_time.csv in" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "text", "advice"),
    [
        ("cluster_step_trace_time.csv", CLUSTER, "rankscope ascend"),
        ("kernel_details.csv", "Step Id,Name,Type,Accelerator Core\n1,a,b,c\n", "trace_view.json"),
        (
            "cluster_communication.json",
            '{"(0, 1)": {"step": {"hcom@1": {"0": {"Communication Time Info": {}}}}}}',
            "trace_view",
        ),
    ],
)
def test_a_report_of_a_table_says_what_to_use(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, text: str, advice: str
) -> None:
    assert cli.main(["report", written(tmp_path / name, text), "--no-cache"]) == 2
    assert advice in capsys.readouterr().err


def test_corpus_cluster_is_read_to_the_nanosecond() -> None:
    path = corpus("ascend-npu/cluster_step_trace_time.csv")
    with path.open() as file:
        written = [row for row in csv.DictReader(file) if row["Type"] == "rank"]
    found = read(str(path))
    assert [row.rank for row in found] == list(range(8)) == [int(row["Index"]) for row in written]
    for row, cells in zip(found, written, strict=True):
        assert row.exposed_ns is not None and row.overlapped_ns is not None
        assert abs(row.exposed_ns + row.overlapped_ns - float(cells["Communication"]) * 1000) <= 1  # both are rounded
