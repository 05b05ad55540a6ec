"""`rankscope nccl`: files told by content, findings in the exit status, bad files beside good ones."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from rankscope.ui.cli import main

GRAPHS = '<graphs version="1"><graph id="0" nchannels="2" speedintra="12"/></graphs>'


def log(comm: str, channels: int, rank: int = 0) -> str:
    begin = f"node1:{rank + 1}:{rank + 1} [0] NCCL INFO "
    init = f"comm 0x1 rank {rank} nranks 1 cudaDev 0 busId 1 commId {comm} - Init"
    return f"{begin}{init} START\n{begin}{channels} coll channels, 0 nvls channels, 8 p2p channels\n{begin}{init} COMPLETE\n"


def test_a_folder_is_told_by_content_and_bad_files_are_notes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "one.txt").write_text(log("0xa", 24))
    (tmp_path / "two.dat").write_text(log("0xb", 2))
    (tmp_path / "graphs").write_text(GRAPHS)
    (tmp_path / "cut.xml").write_text(GRAPHS[:-4])
    (tmp_path / "other").write_bytes(os.urandom(1000))
    os.mkfifo(tmp_path / "pipe")
    assert main(["nccl", str(tmp_path), "--format", "json"]) == 1
    output = capsys.readouterr()
    found = json.loads(output.out)
    assert [(f["id"], f["communicator"]) for f in found["findings"]] == [("few-channels", "0xb")]
    assert [graph["channels"] for layout in found["layouts"] for graph in layout["graphs"]] == [2]
    notes = "\n".join(found["notes"])
    assert all(word in notes for word in ("cut.xml", "pipe", "nothing of NCCL in them: 1"))


def test_without_findings_the_exit_status_is_zero(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "one.txt").write_text(log("0xa", 24))
    assert main(["nccl", str(tmp_path / "one.txt")]) == 0
    assert "channels    24" in capsys.readouterr().out


def test_nothing_of_nccl_and_no_such_file_are_errors_with_a_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "other").write_text("hello")
    assert main(["nccl", str(tmp_path / "other")]) == 2 and main(["nccl", str(tmp_path / "none")]) == 2
    assert "No such file" in capsys.readouterr().err


def test_names_in_a_log_cannot_command_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "one.txt").write_text("node1:1:1 [0] NCCL WARN \x1b[31mred\n" + log("0xa", 24))
    assert main(["nccl", str(tmp_path)]) == 0
    assert "\x1b" not in capsys.readouterr().out
