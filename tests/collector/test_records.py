"""Lines of a rank: whole, private, bounded, and never an error in training."""

from __future__ import annotations

import errno
import json
import logging
import os
import stat
from pathlib import Path

import pytest
from recorded import lines

from rankscope.collector import records, run_dir
from rankscope.collector.records import Lines
from rankscope.collector.run_dir import rank_folder


@pytest.fixture
def taken(tmp_path: Path) -> Lines:
    folder = rank_folder(tmp_path, 3, "0123abcd")
    os.makedirs(folder.path)
    return Lines(folder, 10_000, lambda: None)


def file(taken: Lines, name: str) -> Path:
    return Path(taken.folder.file(name))


def test_records_become_lines_in_their_order(taken: Lines) -> None:
    for step in range(5):
        taken.append("pulse.jsonl", {"step": step})
    taken.flush()
    assert [line["step"] for line in lines(file(taken, "pulse.jsonl"))] == list(range(5))


def test_events_carry_time_and_step(taken: Lines) -> None:
    taken.step = 7
    taken.event("checkpoint", what="save")
    taken.flush()
    (event,) = lines(file(taken, "events.jsonl"))
    assert event["kind"] == "checkpoint" and event["step"] == 7 and event["what"] == "save"
    assert event["unix_ns"] > 1_600_000_000 * 10**9


def test_the_thread_writes_without_being_asked(taken: Lines, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "FLUSH_S", 0.01)
    taken.start()
    taken.append("pulse.jsonl", {"step": 0})
    for _ in range(500):
        if file(taken, "pulse.jsonl").exists() and lines(file(taken, "pulse.jsonl")):
            break
        taken._end.wait(0.01)
    assert lines(file(taken, "pulse.jsonl")) == [{"step": 0}]
    taken.close()


def test_files_are_the_users_alone(taken: Lines) -> None:
    taken.append("pulse.jsonl", {"step": 0})
    taken.close()
    assert stat.S_IMODE(file(taken, "pulse.jsonl").stat().st_mode) == 0o600


def test_a_full_disk_ends_the_records_with_one_warning_and_no_half_line(
    taken: Lines, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    taken.append("pulse.jsonl", {"step": 0})
    taken.flush()
    real = os.write
    accepted = [10]

    def filling(descriptor: int, content: bytes) -> int:
        if not accepted[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        part = content[: accepted[0]]
        accepted[0] -= len(part)
        return real(descriptor, part)

    monkeypatch.setattr(records.os, "write", filling)
    with caplog.at_level(logging.WARNING, "rankscope"):
        for step in range(1, 4):
            taken.append("pulse.jsonl", {"step": step, "padding": "x" * 100})
            taken.flush()
    assert [record.message for record in caplog.records if "no more" in record.message] != []
    assert len(caplog.records) == 1
    assert file(taken, "pulse.jsonl").read_text() == '{"step":0}\n'


def test_lines_that_still_fit_on_a_full_disk_are_kept(taken: Lines, monkeypatch: pytest.MonkeyPatch) -> None:
    real, left = os.write, [38]  # three lines and a half
    monkeypatch.setattr(records, "LAST_WORD_BYTES", 0)

    def filling(descriptor: int, content: bytes) -> int:
        if not left[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        part = content[: left[0]]
        left[0] -= len(part)
        return real(descriptor, part)

    monkeypatch.setattr(records.os, "write", filling)
    for step in range(10):
        taken.append("pulse.jsonl", {"step": step})
    taken.flush()
    assert [line["step"] for line in lines(file(taken, "pulse.jsonl"))] == [0, 1, 2]
    assert file(taken, "pulse.jsonl").read_bytes().endswith(b"}\n")


def test_short_writes_are_continued(taken: Lines, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write
    monkeypatch.setattr(records.os, "write", lambda descriptor, content: real(descriptor, content[:3]))
    taken.append("pulse.jsonl", {"step": 0, "padding": "x" * 50})
    taken.flush()
    assert lines(file(taken, "pulse.jsonl")) == [{"step": 0, "padding": "x" * 50}]


def test_a_file_stays_within_its_bound_and_what_is_lost_is_counted(taken: Lines) -> None:
    for step in range(2_000):
        taken.append("pulse.jsonl", {"step": step})
        taken.flush()
    assert file(taken, "pulse.jsonl").stat().st_size <= 10_000
    assert taken.dropped > 0
    assert taken.dropped + len(lines(file(taken, "pulse.jsonl"))) == 2_000


def test_what_waits_for_the_writer_is_bounded(taken: Lines, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "MAX_WAITING", 10)
    for step in range(25):
        taken.append("pulse.jsonl", {"step": step})
    assert taken.dropped == 15
    taken.flush()
    assert len(lines(file(taken, "pulse.jsonl"))) == 10


def test_what_json_cannot_say_is_dropped_and_the_rest_is_kept(taken: Lines) -> None:
    circle: dict[str, object] = {}
    circle["self"] = circle
    for record in (circle, {(1, 2): "a key that is no text"}, {"step": 1, "odd": "\udcff"}):
        taken.append("pulse.jsonl", record)  # type: ignore[arg-type]
    taken.flush()
    assert [line["step"] for line in lines(file(taken, "pulse.jsonl"))] == [1]
    assert taken.dropped == 2


def test_a_forked_child_writes_nothing(taken: Lines) -> None:
    taken.append("pulse.jsonl", {"step": 0})
    taken.forget()
    taken.append("pulse.jsonl", {"step": 1})
    taken.flush()
    assert not file(taken, "pulse.jsonl").exists()


def test_a_manifest_is_whole_or_the_one_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "manifest.json"
    run_dir.write_atomically(str(path), '{"rank": 1}')

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(run_dir.os, "replace", full)
    with pytest.raises(OSError):
        run_dir.write_atomically(str(path), '{"rank": 2}')
    assert json.loads(path.read_text()) == {"rank": 1}
    assert [found.name for found in tmp_path.iterdir()] == ["manifest.json"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
