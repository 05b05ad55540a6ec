"""The page about recording: its code runs, its names exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from recorded import ROOT, python, recorded

from rankscope.collector.run_dir import STAGES

PAGE = (ROOT / "docs" / "collecting.md").read_text(encoding="utf-8")


def test_its_python_runs_and_records(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    code = f"import os; os.chdir({str(tmp_path)!r})\n" + "\n".join(re.findall(r"```python\n(.+?)```", PAGE, re.DOTALL))
    (tmp_path / "page.py").write_text(code)
    done = python(tmp_path / "page.py", RANKSCOPE_GC_PAUSES="1")
    assert done.returncode == 0, done.stderr
    steps = {name: [found.manifest.steps for found in recorded(tmp_path / "runs" / name)] for name in "abc"}
    assert steps == {"a": [8], "b": [3], "c": [3]}


def test_it_explains_every_stage() -> None:
    assert set(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)) >= set(STAGES)


def test_its_commands_parse() -> None:
    from rankscope.ui.cli import parser

    lines = re.findall(r"^ {4}rankscope (.+)$", PAGE, re.MULTILINE)
    assert len(lines) == 4
    for line in lines:
        parser().parse_args(line.split())
