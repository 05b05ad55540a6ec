"""What is no trace is refused in a word a person understands, and what is no file is never opened."""

from __future__ import annotations

import gzip
import json
import os
import pickle
import signal
from pathlib import Path

import pytest
from kineto_text import kineto, operator

from rankscope.analyzers.errors import UnreadableTrace
from rankscope.analyzers.trace.readers import head, read
from rankscope.analyzers.trace.tables import HostEvents

BASE = 4_458_676_522_690_655
GOOD = kineto([operator(BASE)])
EVENT = {"ph": "X", "cat": "cpu_op", "name": "x", "pid": 1, "tid": 1, "dur": 1}


def refused(path: Path) -> str:
    with pytest.raises(UnreadableTrace) as error:
        read(path)
    with pytest.raises(UnreadableTrace):
        head(path)
    assert error.value.path == str(path)
    return error.value.reason


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"", "is empty"),
        (b" \n ", "is empty"),
        (b"{}", "empty JSON object"),
        (b"hello", "not JSON"),
        (b"[1, 2]", "not of events"),
        (b"[[1, 2]]", "memory timeline"),
        (b"[]", "no events"),
        (b"7", "not JSON"),
        (json.dumps({"schema": "1.0.2", "pid": 1, "nodes": []}).encode(), "execution trace"),
        (json.dumps({"version": "2.10", "entries": [], "pg_config": {}, "pg_status": {}}).encode(), "flight-recorder"),
        (json.dumps({"rocprofiler-sdk-tool": []}).encode(), "without a process"),
        (b'{"rocprofiler-sdk-tool": [{"metadata": {', "damaged"),
        (json.dumps({"rocprofiler-sdk-tool": [{}]}).encode(), "without kernels"),
        (json.dumps({"segments": [], "device_traces": []}).encode(), "memory snapshot"),
        (json.dumps({"a": 1}).encode(), "no traceEvents"),
        (json.dumps({"traceEvents": []}).encode(), "no events"),
        (json.dumps({"traceEvents": {"a": 1}}).encode(), "no traceEvents"),
        (json.dumps([{"ph": "B", "ts": 1, "pid": 1}, {"ph": "E", "ts": 2, "pid": 1}]).encode(), "B and E"),
        (json.dumps({"traceEvents": [{"ph": "M", "name": "process_name", "pid": 0}]}).encode(), "only metadata"),
        (b"\x28\xb5\x2f\xfd....", "zstd"),
        (b"PK\x03\x04....", "zip"),
        (b"SQLite format 3\0", "SQLite"),
        (b"PAR1....", "Parquet"),
        (pickle.dumps({"entries": []}, 2), "flight-recorder"),
        (GOOD.encode("utf-16"), "UTF-16"),
        (b"\x1f\x8b", "compressed data"),
        (gzip.compress(GOOD.encode())[:15], "compressed data"),
        (gzip.compress(b""), "is empty"),
    ],
)
def test_other_content_is_named(tmp_path: Path, content: bytes, word: str) -> None:
    path = tmp_path / "rank0.pt.trace.json"
    path.write_bytes(content)
    assert word in refused(path)


def test_name_says_nothing(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(gzip.compress(GOOD.encode()))
    assert len(read(path)[HostEvents]) == 1


def test_absent_file_folder_and_device_are_refused(tmp_path: Path) -> None:
    assert "cannot be opened" in refused(tmp_path / "none.json")
    assert "not a regular file" in refused(tmp_path)
    assert "not a regular file" in refused(Path("/dev/zero"))
    assert "cannot be opened" in refused(tmp_path / "none\0.json")


def test_fifo_is_refused_without_waiting_for_a_writer(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    signal.alarm(5)
    try:
        assert "not a regular file" in refused(tmp_path / "pipe.json")
    finally:
        signal.alarm(0)


def test_link_within_its_folder_is_followed_and_one_out_of_it_is_not(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "rank0.json").write_text(GOOD)
    (tmp_path / "other.json").write_text(GOOD)
    (folder / "inside.json").symlink_to("rank0.json")
    (folder / "outside.json").symlink_to("../other.json")
    (folder / "loop.json").symlink_to("loop.json")
    (folder / "device.json").symlink_to("/dev/zero")
    assert len(read(folder / "inside.json")[HostEvents]) == 1
    assert "out of its folder" in refused(folder / "outside.json")
    assert "out of its folder" in refused(folder / "device.json")
    refused(folder / "loop.json")


def test_file_that_may_not_be_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.json"
    path.write_text(GOOD)

    def forbidden(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", forbidden)
    assert refused(path) == "cannot be opened: Permission denied"


def test_file_that_shrinks_while_it_is_read_is_said(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(kineto([operator(BASE + n, external=n) for n in range(40_000)]))
    size = path.stat().st_size

    def shrink(done: int, _: int) -> None:
        if done > 3 << 20:
            os.truncate(path, size // 2)

    trace = read(path, progress=shrink)
    assert trace.meta.truncated
    assert 0 < len(trace[HostEvents]) < 40_000
    assert any("shrank" in warning for warning in trace.meta.warnings)


def test_descriptors_are_given_back(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(GOOD)
    bad = tmp_path / "b.json"
    bad.write_text("{}")
    before = len(os.listdir("/proc/self/fd"))
    read(path)
    head(path)
    refused(bad)
    assert len(os.listdir("/proc/self/fd")) == before
