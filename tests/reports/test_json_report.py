"""The JSON report: its keys, its nulls, its schema."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import msgspec
import pytest
from sample import EVERY

from rankscope.analyzers.findings import Diagnosis
from rankscope.reports.renderers.json import render, schema

SCHEMA = Path(__file__).parents[2] / "docs" / "report.schema.json"
PLAIN = sorted(set(EVERY) - {"hostile"})


@pytest.mark.parametrize("name", PLAIN)
def test_json_round_trips(name: str) -> None:
    diagnosis = EVERY[name]()
    assert msgspec.json.decode(render(diagnosis), type=Diagnosis) == diagnosis


@pytest.mark.parametrize("name", sorted(EVERY))
def test_json_is_as_its_schema_says(name: str) -> None:
    text = render(EVERY[name]())
    assert text.endswith("}\n")
    jsonschema.validate(json.loads(text), json.loads(SCHEMA.read_text()))


def test_the_schema_refuses_another_report() -> None:
    document = json.loads(render(EVERY["straggler"]()))
    document["attribution"][0]["window_ns"] = "long"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, json.loads(SCHEMA.read_text()))


def test_the_schema_in_docs_is_the_types() -> None:
    """After a change of findings.py: write `rankscope.reports.renderers.json.schema()` to docs/report.schema.json."""
    assert SCHEMA.read_text() == schema()


def test_the_keys_are_the_contract() -> None:
    document = json.loads(render(EVERY["straggler"]()))
    assert {
        "schema_version", "run", "other_runs", "attribution", "collectives", "clock", "kernels", "peers", "findings",
        "rules", "warnings",
    } <= set(document)  # fmt: skip
    assert next(iter(document)) == "schema_version" and document["schema_version"] == 1
    assert {
        "matched",
        "unmatched",
        "waited_ns",
        "caused_ns",
        "alone_ns",
        "hidden_wait_ns",
        "last_arrivals",
        "by_group",
    } <= set(document["collectives"])


def test_unknown_is_null() -> None:
    document = json.loads(render(EVERY["cpu"]()))
    assert document["attribution"][0]["device"] is None
    assert document["peers"][0]["tracelens"] is None
    assert document["collectives"]["by_group"][1]["bytes"] is None


def test_a_broken_name_does_not_break_the_report() -> None:
    assert "\\\\ud800" in render(EVERY["hostile"]())
