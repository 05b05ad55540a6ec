"""A rank that stops leaves dumps and stacks that name it, while the job still stands; and when the recorder is dumped."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from recorded import SCRIPTS, Recorded, recorded, start, torchrun

from rankscope.collector.probe import Unavailable
from rankscope.collector.probes.flight_recorder import VARIABLES, FlightRecorder
from rankscope.collector.probes.hang import Hang
from rankscope.collector.run_dir import rank_folder
from rankscope.collector.stages import StageClock

LAUNCH = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")


@pytest.fixture(scope="module")
def hung(tmp_path_factory: pytest.TempPathFactory) -> list[Recorded]:
    """What a job left that hung until it was killed."""
    pytest.importorskip("torch", reason="torch is not installed (extra `train`)")
    run = tmp_path_factory.mktemp("hung")
    process = start(*LAUNCH, SCRIPTS / "hanging.py", run, "hang")
    try:
        until = time.monotonic() + 90
        while time.monotonic() < until and len(list(run.glob("ranks/*/flight_recorder-hang.json"))) < 2:
            time.sleep(0.2)
        time.sleep(2.0)  # events reach their file within a second
        for folder in recorded(run):
            os.kill(folder.manifest.pid, signal.SIGKILL)
    finally:
        process.terminate()
        process.communicate(timeout=60)
    return recorded(run)


def entries(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(path.read_text())["entries"]
    return found


def test_the_dumps_of_a_hang_show_which_rank_did_not_come(hung: list[Recorded]) -> None:
    waiting, missing = (entries(rank.folder / "flight_recorder-hang.json") for rank in hung)
    assert len(waiting) == len(missing) + 1
    assert waiting[-1]["retired"] is False and missing[-1]["retired"] is True


def test_the_stacks_of_a_hang_name_the_place(hung: list[Recorded]) -> None:
    waiting, missing = ((rank.folder / "stacks-hang.txt").read_text() for rank in hung)
    assert "sleep_forever" in missing and "sleep_forever" not in waiting
    assert "all_reduce" in waiting
    assert missing.startswith("rank 1, step 6: no step has ended for")
    assert all((rank.folder / "stacks-hang.txt").stat().st_mode & 0o777 == 0o600 for rank in hung)


def test_a_stall_is_one_event_that_says_where_the_rank_stands(hung: list[Recorded]) -> None:
    for rank, function in zip(hung, ("all_reduce", "sleep_forever"), strict=True):
        (stall,) = [event for event in rank.events if event["kind"] == "stall"]
        assert any(frame.endswith(function) for frame in stall["stack"])
        assert stall["seconds"] >= 1.0 and stall["step"] == 6
        assert rank.manifest.ended is None


@pytest.mark.parametrize("when", ["early", "late"])
def test_the_recorder_is_dumped_at_the_end_whenever_the_session_began(when: str, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch is not installed (extra `train`)")
    done = torchrun(2, SCRIPTS / "hanging.py", tmp_path, when)
    assert done.returncode == 0, done.stderr[-3000:]
    for rank in recorded(tmp_path):
        assert rank.manifest.probes["flight_recorder"] == "on"
        names = sorted(path.name for path in rank.folder.glob("flight_recorder-*"))
        assert names == ["flight_recorder-stop.json"]
        found = entries(rank.folder / names[0])
        assert [entry["profiling_name"] for entry in found] == ["gloo:all_reduce"] * 10
        assert not any(event["kind"] == "stall" for event in rank.events)


def test_an_exception_is_dumped_under_its_own_name(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch is not installed (extra `train`)")
    assert torchrun(2, SCRIPTS / "hanging.py", tmp_path, "raise").returncode != 0
    dumps = [sorted(path.name for path in rank.folder.glob("flight_recorder-*")) for rank in recorded(tmp_path)]
    # the launcher ends the other rank as soon as one has failed
    assert ["flight_recorder-exception.json"] in dumps
    assert all(names in (["flight_recorder-exception.json"], ["flight_recorder-signal.json"]) for names in dumps)


# ---- by hand ---------------------------------------------------------------------------------------------------------


def place(tmp_path: Path, events: list[dict[str, Any]]) -> Any:
    folder = rank_folder(tmp_path, 0, "0" * 8)
    Path(folder.path).mkdir(parents=True)
    records = SimpleNamespace(event=lambda kind, **what: events.append({"kind": kind, **what}))
    options = SimpleNamespace(run_dir=str(tmp_path), settings=lambda name, default: None)
    clock = StageClock()
    return SimpleNamespace(
        folder=folder, records=records, options=options, clock=clock, rank=0, step=3, guard=lambda name, function: function
    )


def test_the_recorder_is_switched_on_early_and_the_users_choice_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = VARIABLES
    monkeypatch.setenv(first, "7")
    monkeypatch.delenv(second, raising=False)
    probe = FlightRecorder()
    probe.start(place(tmp_path, []))
    assert os.environ[first] == "7" and os.environ[second] == "2000"
    probe._ended = True
    probe.stop()
    assert os.environ[first] == "7" and second not in os.environ


def test_without_a_process_group_the_recorder_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rankscope.collector.probes.flight_recorder.dump", lambda folder, reason: False)
    probe = FlightRecorder()
    probe.start(place(tmp_path, []))
    with pytest.raises(Unavailable, match="no process group"):
        probe.stop()


def test_a_long_step_is_no_stall_before_ten_of_its_kind(tmp_path: Path) -> None:
    probe = Hang(floor_s=0.0, first_s=60)
    assert probe._limit_s() == 60  # the first steps compile
    probe._walls_s.extend([2.0] * 10)
    assert probe._limit_s() == 20.0
    assert Hang(floor_s=30)._limit_s() == 600


def test_a_stall_that_ends_is_said_and_the_next_one_is_another(tmp_path: Path) -> None:
    events: list[dict[str, Any]] = []
    probe = Hang(floor_s=0.05, first_s=0.05)
    probe.start(place(tmp_path, events))
    for step in range(2):
        until = time.monotonic() + 20
        while sum(event["kind"] == "stall" for event in events) <= step and time.monotonic() < until:
            time.sleep(0.01)
        probe.step(step)
    probe.stop()
    assert [event["kind"] for event in events][:4] == ["stall", "stall_over", "stall", "stall_over"]


def test_a_request_dumps_stacks_without_a_stall(tmp_path: Path) -> None:
    events: list[dict[str, Any]] = []
    probe = Hang()
    probe.start(place(tmp_path, events))
    (tmp_path / "request-dump").touch()
    probe.flushed()
    probe.flushed()
    probe.stop()
    assert [event["kind"] for event in events] == ["dump"]
    assert "which trains" in (tmp_path / "ranks" / ("00000-" + "0" * 8) / "stacks-request.txt").read_text()
