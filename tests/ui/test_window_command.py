"""`rankscope window`: leaves requests where the ranks of a job look for them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from rankscope.collector.request import Watch
from rankscope.collector.run_dir import rank_folder
from rankscope.ui.cli import main


@pytest.fixture(autouse=True)
def hook(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)


@pytest.fixture
def job(tmp_path: Path) -> Path:
    Path(rank_folder(tmp_path, 0, "0" * 8).path).mkdir(parents=True)
    return tmp_path


@pytest.mark.parametrize(
    ("options", "kind", "words"),
    [
        ([], "window", ("steps=3",)),
        (["--steps", "5", "--stacks", "--memory"], "window", ("steps=5", "stacks", "memory")),
        (["--dump"], "dump", ()),
        (["--snapshot"], "memory", ()),
    ],
)
def test_a_request_reaches_whoever_watches_for_it(job: Path, options: list[str], kind: str, words: tuple[str, ...]) -> None:
    watches = {name: Watch(str(job), name) for name in ("window", "dump", "memory")}
    assert main(["window", str(job), *options]) == 0
    asked = {name: watch.asked() for name, watch in watches.items()}
    assert [name for name, request in asked.items() if request is not None] == [kind]
    request = asked[kind]
    assert request is not None and request.words == words


def test_a_folder_without_ranks_is_no_job(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["window", str(tmp_path)]) == 2
    assert "not the run directory of a job" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("steps", ["0", "-3", "1001", "9" * 5000, "many", "1.5"])
def test_a_length_that_no_window_has_is_said(steps: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["window", str(tmp_path), f"--steps={steps}"])
    said = capsys.readouterr().err
    assert ended.value.code == 2 and said.count("\n") == 1 and "from 1 to 1000" in said
