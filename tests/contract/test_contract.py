"""The contract: small traces made by hand and the exact figures of the report."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from contract import device_cases, run_cases
from contract.compare import differences
from contract.layout import text
from contract.writer import Case
from runs import report, written

from rankscope.ui import cli

Build = Callable[[], Case]
CASES: list[Build] = [
    value
    for module in (device_cases, run_cases)
    for value in vars(module).values()
    if inspect.isfunction(value) and value.__module__ == module.__name__
]
FOLDERS = [device_cases.starved_gap, run_cases.one_late_rank, run_cases.two_clocks, run_cases.gloo_on_cpu]


def test_no_case_is_lost() -> None:
    assert len(CASES) == 27


@pytest.mark.parametrize("build", CASES, ids=lambda build: build.__name__)
def test_the_report_has_the_exact_figures(build: Build, tmp_path: Path) -> None:
    ranks, expected = build()
    assert list(differences(report(written(tmp_path, map(text, ranks))), expected)) == []


@pytest.mark.parametrize("build", FOLDERS, ids=lambda build: build.__name__)
def test_the_command_line_has_them_too(build: Build, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ranks, expected = build()
    written(tmp_path, map(text, ranks))
    assert cli.main(["report", str(tmp_path), "--format", "json", "--no-cache"]) == 0
    assert list(differences(json.loads(capsys.readouterr().out), expected)) == []


def test_a_figure_that_is_off_by_a_nanosecond_is_seen(tmp_path: Path) -> None:
    ranks, expected = device_cases.plain_step()
    found = report(written(tmp_path, map(text, ranks)))
    found["attribution"][0]["window_ns"] += 1
    assert len(list(differences(found, expected))) == 1
