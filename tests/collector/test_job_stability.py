"""Stability of the job: restarts, lost steps, overflow, checkpoints, goodput."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rankscope.collector.job import TAIL_BYTES, Job
from rankscope.collector.records import Lines
from rankscope.collector.run_dir import EVENTS, MANIFEST, PULSE, Manifest, RankFolder, line, rank_folder


def attempt(
    run_dir: Path, token: str, steps: int, saved: int | None, ended: str | None, rank: int = 0, tail: str = ""
) -> RankFolder:
    """An earlier attempt of a rank: so many steps, a checkpoint in the midst of step `saved`."""
    folder = rank_folder(run_dir, rank, token)
    os.makedirs(folder.path)
    Path(folder.file(MANIFEST)).write_text(Manifest(rank=rank, ended=ended).to_json())
    Path(folder.file(PULSE)).write_text("".join(line({"step": step}) for step in range(steps)) + tail)
    if saved is not None:
        events = [{"kind": "checkpoint", "what": "save", "step": saved}, {"kind": "checkpoint", "what": "load", "step": 99}]
        Path(folder.file(EVENTS)).write_text("".join(line(event) for event in events))
    return folder


def job(run_dir: Path) -> tuple[Job, Lines, RankFolder]:
    folder = rank_folder(run_dir, 0, "ffffffff")
    os.makedirs(folder.path)
    records = Lines(folder, 1 << 20, lambda: None)
    return Job(records), records, folder


def test_a_first_attempt_has_lost_nothing(tmp_path: Path) -> None:
    made, _, own = job(tmp_path)
    made.look_back(str(tmp_path), own)
    assert (made.restarts, made.lost_steps) == (0, 0)


@pytest.mark.parametrize(
    ("steps", "saved", "ended", "lost"),
    [(10, 8, None, 2), (10, None, None, 10), (10, 8, "signal 15", 2), (0, None, None, 0)],
    ids=["killed", "never saved", "terminated", "no steps"],
)
def test_steps_after_the_last_checkpoint_of_an_attempt_are_lost(
    steps: int, saved: int | None, ended: str | None, lost: int, tmp_path: Path
) -> None:
    attempt(tmp_path, "00000001", steps, saved, ended)
    made, _, own = job(tmp_path)
    made.look_back(str(tmp_path), own)
    assert (made.restarts, made.lost_steps) == (1, lost)


def test_a_run_that_finished_was_not_restarted(tmp_path: Path) -> None:
    attempt(tmp_path, "00000001", 10, 8, "finished")
    made, _, own = job(tmp_path)
    made.look_back(str(tmp_path), own)
    assert (made.restarts, made.lost_steps) == (0, 0)


def test_attempts_add_up_and_other_ranks_are_not_counted(tmp_path: Path) -> None:
    attempt(tmp_path, "00000001", 10, 8, None)
    attempt(tmp_path, "00000002", 5, 1, "exception: RuntimeError")
    attempt(tmp_path, "00000003", 50, None, None, rank=1)
    made, _, own = job(tmp_path)
    made.look_back(str(tmp_path), own)
    assert (made.restarts, made.lost_steps) == (2, 2 + 4)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs POSIX pipes")
@pytest.mark.parametrize("name", [MANIFEST, PULSE])
def test_training_does_not_wait_for_a_pipe_in_an_earlier_attempts_folder(name: str, tmp_path: Path) -> None:
    folder = attempt(tmp_path, "00000001", 10, None, None)
    os.unlink(folder.file(name))
    os.mkfifo(folder.file(name))
    made, _, own = job(tmp_path)
    made.look_back(str(tmp_path), own)
    assert (made.restarts, made.lost_steps) == (1, 10 if name == MANIFEST else 0)


def test_half_a_line_and_damage_are_no_steps(tmp_path: Path) -> None:
    attempt(tmp_path, "00000001", 10, None, None, tail='not json\n[1]\n{"step":null}\n{"step":99')
    made, _, own = job(tmp_path)
    made.look_back(str(tmp_path), own)
    assert made.lost_steps == 10


def test_only_the_tail_of_a_long_attempt_is_read(tmp_path: Path) -> None:
    steps = TAIL_BYTES // 8
    folder = attempt(tmp_path, "00000001", steps, None, None)
    assert os.path.getsize(folder.file(PULSE)) > TAIL_BYTES
    made, _, own = job(tmp_path)
    made.look_back(str(tmp_path), own)
    assert made.lost_steps == steps


def test_an_attempt_without_files_costs_nothing(tmp_path: Path) -> None:
    os.makedirs(rank_folder(tmp_path, 0, "00000001").path)
    made, _, own = job(tmp_path)
    made.look_back(str(tmp_path), own)
    assert (made.restarts, made.lost_steps) == (1, 0)


def test_a_falling_loss_scale_is_an_overflow_and_a_growing_one_is_not(tmp_path: Path) -> None:
    made, records, _ = job(tmp_path)
    for step, scale in enumerate((1024.0, 1024.0, 512.0, 512.0, 1024.0, 512.0)):
        made.judge({"step": step, "log": {"loss_scale": scale}})
    made.judge({"step": 6})
    assert made.overflows == 2
    records.close()


def test_goodput_is_the_time_of_whole_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [10**9]
    monkeypatch.setattr("rankscope.collector.job.time.monotonic_ns", lambda: now[0])
    made, _, _ = job(tmp_path)
    for _ in range(3):
        made.stepped(200)
    made.saved("save", 150)
    now[0] += 400
    made.stepped(200)
    now[0] += 600
    facts = made.facts()
    assert facts["goodput_share"] == pytest.approx(0.8) and facts["productive_ns"] == 800
    assert (facts["checkpoints"], facts["checkpoint_ns"], facts["checkpoint_age_ns"]) == (1, 150, 1000)
    assert facts["steps_since_checkpoint"] == 1
    made.saved("load", 50)
    assert made.facts()["checkpoints"] == 1 and made.facts()["checkpoint_age_ns"] == 1000
