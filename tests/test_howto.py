"""The how-to pages and the notebook do what they say: their commands and their Python run, in the order they stand."""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hang import made_dumps as dumps
from hang.made_dumps import Asked
from runs_made import Job

import rankscope
from rankscope.simulator import demo, faults, simulate
from rankscope.ui import cli
from rankscope.ui.commands import tables

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = ["recording.md", "report.md", "slow-rank.md", "comparing.md", "migrating.md", "what-if.md", "hangs.md"]
NEEDS_A_JOB = {"recording.md"}  # its Python trains
HTA = os.environ.get("RANKSCOPE_HTA_PYTHON") or str(ROOT / ".venv-hta/bin/python")


def blocks(page: str, language: str) -> list[str]:
    return re.findall(
        rf"^```{language}\n(.+?)^```", (DOCS / page).read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )


def commands(page: str) -> list[str]:
    return [line for block in blocks(page, "sh") for line in block.splitlines()]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the pages call `traces/` (rank 5 is slow), `before/`, `after/`, and `job/`, a run directory without traces."""
    folder = tmp_path_factory.mktemp("howto")
    demo.write(folder / "traces")
    Job(ranks=8, late={(5, "forward"): 40}).write(folder / "job")
    asked = [Asked(seq=1), Asked(seq=2, done=False)]
    dumps.write(
        folder / "dumps", {rank: dumps.dump(asked[: 1 if rank == 2 else 2], {"0": range(4)}) for rank in range(4)}
    )
    healthy = replace(demo.SCENARIO, ranks=2, faults=())
    simulate(healthy).write(folder / "before")
    simulate(replace(healthy, faults=(faults.slow_loader(5_000_000),))).write(folder / "after")
    return folder


@pytest.fixture(autouse=True)
def there(runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(runs / "xdg"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    for name in ("traces", "before", "after", "job", "dumps"):
        (tmp_path / name).symlink_to(runs / name)
    monkeypatch.chdir(tmp_path)
    hook = sys.excepthook
    yield tmp_path
    sys.excepthook = hook


def ran(script: str, at: Path) -> str:
    (at / "script.py").write_text(script, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=at, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.mark.parametrize("command", [c for page in PAGES for c in commands(page) if not c.startswith("torchrun ")])
def test_commands_of_the_pages_run(command: str, there: Path) -> None:
    program, *args = shlex.split(command)
    if args[0] == "hta":
        if not Path(HTA).exists():
            pytest.skip("HTA is not installed here (make bench-hta, or RANKSCOPE_HTA_PYTHON)")
        (there / ".venv-hta").symlink_to(Path(HTA).parents[1])
    status = cli.main(args)
    assert program == "rankscope" and status == ("--fail-on" in args or args[0] == "hang")
    if "-o" in args:
        assert (there / args[args.index("-o") + 1]).stat().st_size > 0


def test_the_recording_records_what_the_report_needs(tmp_path: Path) -> None:
    """The page from top to bottom: its script in two processes, then its commands on what that wrote."""
    pytest.importorskip("torch", reason="torch is not installed (extra `train`)")
    place = tmp_path / "recording"
    place.mkdir()
    (block,) = blocks("recording.md", "python")
    (place / "train.py").write_text(block, encoding="utf-8")
    train, *reports = (shlex.split(command) for command in commands("recording.md"))
    assert train[0] == "torchrun" and [command[:2] for command in reports] == [["rankscope", "report"]] * 2
    launched = [sys.executable, "-m", "torch.distributed.run", *train[1:]]
    done = subprocess.run(
        launched, cwd=place, env=os.environ | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-2000:]
    for _, *args in reports:
        told = subprocess.run(
            [sys.executable, "-m", "rankscope", *args], cwd=place, capture_output=True, text=True, timeout=300
        )
        assert told.returncode == 0, told.stderr[-2000:]
    run = rankscope.load(place / "traces", cache=False, jobs=1)
    assert run.ranks == [0, 1] and len(run.analysis.steps) == 9  # of ten, the first is not judged
    outcomes = run.diagnose().rules
    assert outcomes.failed == []
    assert not any("record_shapes" in skipped.record for skipped in outcomes.skipped)
    assert run.operators()["name"].str.startswith("aten::").any()


@pytest.mark.parametrize(
    "page", sorted(set(PAGES) - NEEDS_A_JOB - {"migrating.md", "report.md", "what-if.md", "hangs.md"})
)
def test_python_of_the_pages_runs(page: str, there: Path) -> None:
    told = ran("\n".join(blocks(page, "python")), there)
    if page == "slow-rank.md":
        assert "\n5\n" in told
    else:
        assert "data-starved" in told


@pytest.mark.parametrize("page", PAGES)
def test_python_of_the_pages_is_python(page: str) -> None:
    for block in blocks(page, "python"):
        ast.parse(block)
    assert blocks(page, "sh")


def test_options_of_the_recording_are_those_of_the_profiler() -> None:
    (block,) = blocks("recording.md", "python")
    calls = [node for node in ast.walk(ast.parse(block)) if isinstance(node, ast.Call)]
    (call,) = [c for c in calls if isinstance(c.func, ast.Name) and c.func.id == "profile"]
    used = {keyword.arg for keyword in call.keywords}
    assert used == {"activities", "schedule", "on_trace_ready", "record_shapes", "profile_memory"}


def test_the_notebook_runs_from_top_to_bottom(there: Path) -> None:
    notebook = json.loads((DOCS / "howto.ipynb").read_text(encoding="utf-8"))
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert notebook["nbformat"] == 4 and all(cell["outputs"] == [] for cell in cells)
    script = "\n".join("".join(cell["source"]) for cell in cells) + '\nassert "Rank 5" in run._repr_html_()\n'
    assert "Rank 5" in ran(script, there)


def test_the_page_of_tables_is_what_the_command_says(capsys: pytest.CaptureFixture[str]) -> None:
    page = (DOCS / "tables.md").read_text(encoding="utf-8")
    assert page == tables.page(), "write it anew: rankscope tables > docs/tables.md"
    assert cli.main(["tables"]) == 0 and capsys.readouterr().out == page


def test_the_page_of_tables_has_every_column() -> None:
    page = (DOCS / "tables.md").read_text(encoding="utf-8")
    for group in tables.declared():
        for name, table in group.items():
            section = page.split(f"### {name}\n")[1].split("\n### ")[0]
            assert re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE) == list(table.declared)


def test_what_migrating_names_exists() -> None:
    page = (DOCS / "migrating.md").read_text(encoding="utf-8")
    columns = {column for group in tables.declared() for table in group.values() for column in table.declared}
    results = set(tables.declared()[0])
    rows = [line.split(" | ")[1] for line in page.splitlines() if line.startswith("| ") and " | " in line]
    named = {word for cell in rows for word in re.findall(r"\b\w+_ns\b", cell)}
    assert len(named) > 10 and named <= columns
    assert {call for cell in rows for call in re.findall(r"(\w+)\(\)", cell)} <= results
