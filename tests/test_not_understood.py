"""What a file holds and nobody can tell the meaning of is said with its count, never dropped in silence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from corpus import corpus
from runs import diagnosed

HOST = {"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 1, "tid": 1, "ts": 0, "dur": 9}


def mtia(name: str, at: int, dur: int) -> dict[str, Any]:
    event = {"ph": "X", "cat": "mtia_ccp_events", "pid": 17, "tid": 5, "args": {"stream": 5}}
    return {**event, "name": name, "ts": at, "dur": dur}


def warnings(path: Path) -> list[str]:
    return [text for text in diagnosed([path]).warnings if "not understood" in text]


def test_accelerator_rows_of_unknown_meaning_are_counted_and_timed(tmp_path: Path) -> None:
    known = [mtia(name, at, 2) for at, name in enumerate(("pe_exe", "dma_request", "event_wait", "event_record"))]
    path = tmp_path / "rank0.json"
    path.write_text(json.dumps({"traceEvents": [HOST, *known]}))
    assert warnings(path) == []
    path.write_text(json.dumps({"traceEvents": [HOST, *known, mtia("merge", 20, 3), mtia("merge", 30, 4)]}))
    (said,) = warnings(path)
    assert "2 device events `merge` of category mtia_ccp_events (7.00 µs)" in said


@pytest.mark.parametrize(("category", "shown"), [({"cat": "of_tomorrow"}, "of_tomorrow"), ({}, "(none)")])
def test_an_unknown_category_is_counted(tmp_path: Path, category: dict[str, str], shown: str) -> None:
    other = {key: value for key, value in HOST.items() if key != "cat"} | category
    path = tmp_path / "rank0.json"
    path.write_text(json.dumps({"traceEvents": [HOST, other, other]}))
    (said,) = warnings(path)
    assert f"2 events of category {shown} not understood" in said


def test_mtia_of_the_corpus_says_what_is_not_understood() -> None:
    said = warnings(corpus("hta/mtia_inference_rank_0.json.gz"))
    assert [text.split(": ")[1].split(" of ")[0] for text in said] == [
        "37 device events `remote`",
        "36 device events `merge`",
    ]
