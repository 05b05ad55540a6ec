"""What `rankscope.profile` is asked to do, and what the environment has to say about it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rankscope.collector.options import options, switched_off


@pytest.mark.parametrize(
    "asked", [{"mode": "deep"}, {"budget_share": 0}, {"budget_share": -1}, {"budget_share": 1.5}], ids=str
)
def test_options_that_mean_nothing_are_said_at_once(asked: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        options("runs/a", **asked)


def test_the_run_directory_comes_from_the_code_then_the_environment_then_a_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RANKSCOPE_RUN_DIR", raising=False)
    assert options(None).run_dir == str(tmp_path / "rankscope-run")
    monkeypatch.setenv("RANKSCOPE_RUN_DIR", str(tmp_path / "said"))
    assert options(None).run_dir == str(tmp_path / "said")
    assert options(Path("a")).run_dir == str(tmp_path / "a")


@pytest.mark.parametrize(
    ("asked", "said", "expected"),
    [
        (None, None, {}),
        (True, None, {}),
        (False, None, None),
        ({"period_s": 2}, None, {"period_s": 2}),
        ({}, None, {}),
        (True, "0", None),
        (False, "1", {}),
        ({"period_s": 2}, "off", None),
        ({"period_s": 2}, "1", {"period_s": 2}),
    ],
)
def test_a_probe_is_switched_by_the_code_and_above_it_by_the_environment(
    asked: Any, said: str | None, expected: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RANKSCOPE_NVML", raising=False)
    if said is not None:
        monkeypatch.setenv("RANKSCOPE_NVML", said)
    chosen = options("a", probes={} if asked is None else {"nvml": asked})
    assert chosen.settings("nvml", True) == expected


def test_a_probe_that_is_off_by_default_is_off_unless_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RANKSCOPE_NVML", raising=False)
    assert options("a").settings("nvml", False) is None
    assert options("a", probes={"nvml": True}).settings("nvml", False) == {}


@pytest.mark.parametrize(("said", "off"), [("0", True), ("off", True), ("FALSE", True), ("1", False), ("", False)])
def test_one_variable_switches_everything_off(said: str, off: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANKSCOPE", said)
    assert switched_off() is off
