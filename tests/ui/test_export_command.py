"""`rankscope export`: files and folders where they are asked for, whole or not at all."""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from kineto_file import write

from rankscope.ui import cli
from rankscope.ui.commands import export


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    hook = sys.excepthook
    for rank in range(2):
        write(tmp_path / f"traces/rank{rank}.json", rank)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    yield tmp_path / "work"
    sys.excepthook = hook


def status(*args: object) -> int:
    try:
        return cli.main([str(arg) for arg in args])
    except SystemExit as end:
        return int(end.code or 0)


@pytest.mark.parametrize("to", ["perfetto", "speedscope"])
def test_a_file_is_compressed_if_its_name_says_so(here: Path, to: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert status("export", "../traces", "--to", to) == 0
    assert status("export", "../traces", "--to", to, "-o", "plain.json") == 0
    packed, plain = (here / export.PLACES[to]).read_bytes(), (here / "plain.json").read_bytes()
    assert gzip.decompress(packed) == plain and json.loads(plain)
    out, err = capsys.readouterr()
    assert out == "" and f"wrote {export.PLACES[to]}" in err and "events" in err


@pytest.mark.parametrize("to", ["csv", "parquet"])
def test_tables_lie_in_a_folder_with_what_they_mean(here: Path, to: str) -> None:
    if to == "parquet":
        pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    assert status("export", "../traces", "--to", to, "-o", "made/here") == 0
    names = {path.name for path in (here / "made/here").iterdir()}
    assert {f"attribution.{to}", f"operators.{to}", "tables.md", "tables.json"} <= names
    assert len(names) == 14 and json.loads((here / "made/here/tables.json").read_text()).keys() == {
        path.stem for path in (here / "made/here").glob(f"*.{to}")
    }


def test_without_pyarrow_nothing_is_read(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    assert status("export", "../absent", "--to", "parquet") == 2
    assert "pip install 'rankscope[arrow]'" in capsys.readouterr().err


@pytest.mark.parametrize("to", ["perfetto", "csv"])
def test_a_place_that_cannot_be_written_is_one_clear_line(
    here: Path, to: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "file").write_text("")
    assert status("export", "../traces", "--to", to, "-o", "file/below") == 2
    assert "file/below cannot be" in capsys.readouterr().err
    assert [path.name for path in here.iterdir()] == ["file"]


def test_a_failure_leaves_the_older_file(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from rankscope.reports.exports import perfetto

    def fails(source: object, file: object) -> None:
        raise KeyboardInterrupt

    (here / "old.json").write_text("old")
    monkeypatch.setattr(perfetto, "write", fails)
    assert status("export", "../traces", "--to", "perfetto", "-o", "old.json") == 130
    assert [(path.name, path.read_text()) for path in here.iterdir()] == [("old.json", "old")]


def test_selections_are_those_of_the_report(capsys: pytest.CaptureFixture[str]) -> None:
    assert status("export", "../traces", "--to", "csv", "--ranks", "1", "--steps", "2", "--no-cache") == 0
    lines = Path("rankscope-tables/attribution.csv").read_text().splitlines()
    assert {line.split(",")[0] for line in lines[1:]} == {"1"}
    assert status("export", "../traces", "--to", "csv", "--ranks", "7") == 2
