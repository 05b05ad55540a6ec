"""The speedscope export, against its format written out by hand, and against the operators of the report."""

from __future__ import annotations

import io
import json
from collections import defaultdict
from typing import Any

import jsonschema
import pytest
from corpus import corpus
from exports.made import simulated

import rankscope
from rankscope.reports.exports import speedscope
from rankscope.run import Run

FORMAT = {
    "type": "object",
    "required": ["$schema", "shared", "profiles"],
    "properties": {
        "$schema": {"const": "https://www.speedscope.app/file-format-schema.json"},
        "name": {"type": "string"},
        "exporter": {"type": "string"},
        "activeProfileIndex": {"type": "integer", "minimum": 0},
        "shared": {
            "type": "object",
            "required": ["frames"],
            "properties": {
                "frames": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "required": ["name"],
                        "properties": {
                            "name": {"type": "string"}, "file": {"type": "string"},
                            "line": {"type": "integer"}, "col": {"type": "integer"},
                        },
                        "additionalProperties": False,
                    },
                }
            },
            "additionalProperties": False,
        },
        "profiles": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["type", "name", "unit", "startValue", "endValue", "events"],
                "properties": {
                    "type": {"const": "evented"},
                    "name": {"type": "string"},
                    "unit": {"enum": ["bytes", "microseconds", "milliseconds", "nanoseconds", "none", "seconds"]},
                    "startValue": {"type": "number"},
                    "endValue": {"type": "number"},
                    "events": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "required": ["type", "frame", "at"],
                            "properties": {
                                "type": {"enum": ["O", "C"]}, "frame": {"type": "integer", "minimum": 0},
                                "at": {"type": "number"},
                            },
                            "additionalProperties": False,
                        },
                    },
                },
                "additionalProperties": False,
            },
        },
    },
    "additionalProperties": False,
}  # fmt: skip
RUNS = ["simulated", "gloo-4rank/fsdp_slow_rank", "tracelens/train_resnet18.json.gz"]


def made(name: str) -> Run:
    return simulated() if name == "simulated" else rankscope.load(corpus(name), cache=False, jobs=1)


def exported(run: Run) -> tuple[dict[str, Any], int]:
    file = io.BytesIO()
    written = speedscope.write(run.source(), file)
    return json.loads(file.getvalue()), written


@pytest.mark.parametrize("name", RUNS)
def test_the_document_keeps_the_format_and_brackets_close(name: str) -> None:
    document, written = exported(made(name))
    jsonschema.validate(document, FORMAT)
    opened = 0
    for profile in document["profiles"]:
        stack, at = [], profile["startValue"]
        for event in profile["events"]:
            assert at <= event["at"] <= profile["endValue"] and event["frame"] < len(document["shared"]["frames"])
            at = event["at"]
            if event["type"] == "O":
                stack.append(event["frame"])
                opened += 1
            else:
                assert stack.pop() == event["frame"]
        assert stack == []
    assert opened == written > 0


@pytest.mark.parametrize("name", RUNS)
def test_time_of_operators_is_that_of_the_table(name: str) -> None:
    run = made(name)
    document, _ = exported(run)
    total: dict[str, int] = defaultdict(int)
    for profile in document["profiles"]:
        opened: list[int] = []
        for event in profile["events"]:
            if event["type"] == "O":
                opened.append(event["at"])
            else:
                total[document["shared"]["frames"][event["frame"]]["name"]] += event["at"] - opened.pop()
    by_name = run.operators().groupby("name")["total_ns"].sum()
    working = [op for op in by_name.index if op.startswith("aten::")]
    assert working and {op: total[op] for op in working} == {op: by_name[op] for op in working}


def test_a_python_function_shows_its_file_and_line() -> None:
    assert speedscope._frame("models/net.py(12): forward") == {"name": "forward", "file": "models/net.py", "line": 12}
    assert speedscope._frame("aten::mm") == {"name": "aten::mm"}
    assert speedscope._frame("<built-in method run of object>") == {"name": "<built-in method run of object>"}


def test_every_rank_has_its_threads() -> None:
    names = [profile["name"] for profile in exported(simulated())[0]["profiles"]]
    assert {int(name.split()[1]) for name in names} == {0, 1, 2, 3} and len(set(names)) == len(names)
