"""The face: with, decorator, start and stop; what the user's code does goes through it unchanged."""

from __future__ import annotations

import asyncio
import copy
import errno
import itertools
import json
import logging
import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from recorded import one, recorded

import rankscope
from rankscope.collector import profile as profiles
from rankscope.collector.run_dir import STAGES


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in [name for name in os.environ if name.startswith("RANKSCOPE")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("RANKSCOPE_QUIET", "1")
    yield
    left = profiles.active()
    assert left is None, "a test left its session running"



def test_each_step_is_a_line_whose_stages_add_up_exactly(tmp_path: Path) -> None:
    with rankscope.profile(tmp_path / "run") as p:
        for _ in range(8):
            with p.span("forward"):
                pass
            with p.span("checkpoint"):
                pass
            p.step()
    found = one(tmp_path / "run")
    assert [line["step"] for line in found.pulse] == list(range(8))
    for line in found.pulse:
        assert sum(line["stages"].values()) == line["wall_ns"]
        assert set(line["stages"]) <= set(STAGES) and {"forward", "checkpoint"} <= set(line["stages"])
    assert found.manifest.ended == "finished" and found.manifest.steps == 8
    assert found.manifest.ended_unix_ns is not None and "pulse.jsonl" in found.manifest.files


def test_steps_follow_each_other_without_a_gap(tmp_path: Path) -> None:
    with rankscope.profile(tmp_path / "run") as p:
        for _ in range(5):
            p.step()
    pulse = one(tmp_path / "run").pulse
    for before, after in itertools.pairwise(pulse):
        # the same clock reads both; the two readings of it that tie it to UNIX time are a few microseconds apart
        assert after["begin_ns"] == pytest.approx(before["begin_ns"] + before["wall_ns"], abs=1_000_000)


def test_a_run_of_no_steps_leaves_a_manifest_that_says_so(tmp_path: Path) -> None:
    with rankscope.profile(tmp_path / "run"):
        pass
    found = one(tmp_path / "run")
    assert (found.manifest.ended, found.manifest.steps, found.pulse) == ("finished", 0, [])


def test_logged_numbers_and_spans_are_in_the_line_of_their_step(tmp_path: Path) -> None:
    with rankscope.profile(tmp_path / "run") as p:
        p.log(loss=2.5, tokens=4096)
        with p.span("evaluate"):
            pass
        p.step()
        p.log(loss=2)
        p.step()
    first, second = one(tmp_path / "run").pulse
    assert first["log"] == {"loss": 2.5, "tokens": 4096} and first["spans"]["evaluate"] > 0
    assert second["log"] == {"loss": 2} and "spans" not in second


def test_what_is_no_number_becomes_null_and_an_event(tmp_path: Path) -> None:
    with rankscope.profile(tmp_path / "run") as p:
        for value in (1.0, float("nan"), float("nan"), float("-inf")):
            p.log(loss=value)
            p.step()
    found = one(tmp_path / "run")
    assert [line["log"]["loss"] for line in found.pulse] == [1.0, None, None, None]
    (event,) = [event for event in found.events if event["kind"] == "not_finite"]
    assert (event["of_step"], event["name"], event["value"]) == (1, "loss", "nan")
    assert found.manifest.job["not_finite"] == {"loss": 3}


def test_logged_integers_stay_what_json_readers_take_for_numbers(tmp_path: Path) -> None:
    with rankscope.profile(tmp_path / "run") as p:
        p.log(tokens=1 << 62, seen=1 << 64, done=True)
        p.step()
    (line,) = one(tmp_path / "run").pulse
    assert [(type(value), value) for value in line["log"].values()] == [(int, 1 << 62), (float, 2.0**64), (int, 1)]


@pytest.mark.parametrize(("value", "why"), [("text", "ValueError"), (10**400, "OverflowError"), (None, "TypeError")])
def test_a_value_that_can_not_be_logged_costs_only_itself(
    value: object, why: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "rankscope"), rankscope.profile(tmp_path / "run") as p:
        for _ in range(3):
            p.log(value=value, loss=1.0)
            p.step()
    found = one(tmp_path / "run")
    assert [line["log"] for line in found.pulse] == [{"loss": 1.0}] * 3
    assert len(caplog.records) == 1 and found.manifest.probes["log"].startswith(f"failed: {why}")


def test_the_users_exception_comes_through_and_the_manifest_names_it(tmp_path: Path) -> None:
    with pytest.raises(KeyError, match="lost"), rankscope.profile(tmp_path / "run") as p:
        p.step()
        raise KeyError("lost")
    found = one(tmp_path / "run")
    assert found.manifest.ended == "exception: KeyError: 'lost'" and len(found.pulse) == 1


@pytest.mark.parametrize(("code", "ended"), [(None, "finished"), (0, "finished"), (3, "exception: SystemExit: 3")])
def test_an_exit_comes_through_too(code: int | None, ended: str, tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as caught, rankscope.profile(tmp_path / "run"):
        raise SystemExit(code)
    assert caught.value.code == code
    assert one(tmp_path / "run").manifest.ended == ended


def test_a_decorated_function_is_recorded_at_each_call(tmp_path: Path) -> None:
    @rankscope.profile(tmp_path / "run")
    def train(steps: int, *, scale: int) -> int:
        """What it does."""
        for _ in range(steps):
            rankscope.profile().step()
        return steps * scale

    assert train.__doc__ == "What it does."
    assert train(2, scale=10) == 20 and train(3, scale=1) == 3
    assert sorted(found.manifest.steps for found in recorded(tmp_path / "run")) == [2, 3]


def test_a_decorated_generator_is_recorded_until_it_ends(tmp_path: Path) -> None:
    p = rankscope.profile(tmp_path / "run")

    @p
    def train(steps: int) -> Iterator[int]:
        for step in range(steps):
            p.step()
            yield step

    assert list(train(4)) == [0, 1, 2, 3]
    half = train(4)
    next(half)
    half.close()
    assert sorted((found.manifest.steps, found.manifest.ended) for found in recorded(tmp_path / "run")) == [
        (1, "finished"), (4, "finished"),
    ]  # fmt: skip


def test_a_decorated_coroutine_is_recorded_until_it_ends(tmp_path: Path) -> None:
    p = rankscope.profile(tmp_path / "run")

    @p
    async def train() -> str:
        p.step()
        await asyncio.sleep(0)
        p.step()
        return "done"

    assert asyncio.run(train()) == "done"
    assert one(tmp_path / "run").manifest.steps == 2


def test_start_and_stop_do_for_callbacks(tmp_path: Path) -> None:
    p = rankscope.profile(tmp_path / "run")
    p.step()  # too early, and no error
    p.start()
    p.step()
    p.stop()
    p.step()
    p.stop()
    assert one(tmp_path / "run").manifest.steps == 1


def test_one_profile_can_be_used_again(tmp_path: Path) -> None:
    p = rankscope.profile(tmp_path / "run")
    for steps in (1, 2):
        with p:
            for _ in range(steps):
                p.step()
    assert sorted(found.manifest.steps for found in recorded(tmp_path / "run")) == [1, 2]


def test_an_inner_profile_adds_to_the_outer_one(tmp_path: Path) -> None:
    with rankscope.profile(tmp_path / "outer") as outer:
        with rankscope.profile(tmp_path / "inner") as inner:
            inner.log(loss=1.0)
            inner.step()
        assert profiles.active() is not None
        with outer:
            outer.step()
        outer.step()
    assert one(tmp_path / "outer").manifest.steps == 3
    assert one(tmp_path / "outer").pulse[0]["log"] == {"loss": 1.0}
    assert not (tmp_path / "inner").exists()


def test_steps_may_come_from_another_thread(tmp_path: Path) -> None:
    with rankscope.profile(tmp_path / "run") as p:

        def train() -> None:
            for _ in range(3):
                with p.span("forward"):
                    pass
                p.step()

        thread = threading.Thread(target=train)
        thread.start()
        thread.join()
    found = one(tmp_path / "run")
    assert found.manifest.steps == 3
    assert "forward" in found.pulse[1]["stages"]  # from its second step on, that thread is the one that is watched


def test_one_variable_switches_it_off_and_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANKSCOPE", "0")
    with rankscope.profile(tmp_path / "run") as p:
        with p.span("forward"):
            p.log(loss=1.0)
        p.step()
    assert not (tmp_path / "run").exists()


def test_a_directory_that_can_not_be_written_costs_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("in the way")
    with caplog.at_level(logging.WARNING, "rankscope"), rankscope.profile(tmp_path / "file" / "run") as p:
        for _ in range(3):
            p.log(loss=1.0)
            p.step()
    assert len(caplog.records) == 1 and "training goes on" in caplog.records[0].message


def test_a_disk_that_fills_is_said_once_and_the_manifest_tells_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from rankscope.collector import records

    def full(descriptor: int, content: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with caplog.at_level(logging.WARNING, "rankscope"), rankscope.profile(tmp_path / "run", probes={"host": False}) as p:
        for _ in range(3):
            p.step()
        # of the lines only: the same call wakes the thread that listens for signals
        monkeypatch.setattr(records, "os", _Os(full))
    found = one(tmp_path / "run")
    assert len(caplog.records) == 1 and "No space left" in caplog.records[0].message
    assert found.manifest.ended == "finished" and found.manifest.probes["records"] == "failed: No space left on device"
    assert found.pulse == []


class _Os:
    """The module `os`, but for one function."""

    def __init__(self, write: Any) -> None:
        self.write = write

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_directory_costs_one_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "locked").mkdir(mode=0o500)
    with caplog.at_level(logging.WARNING, "rankscope"), rankscope.profile(tmp_path / "locked" / "run") as p:
        p.step()
    assert len(caplog.records) == 1 and not (tmp_path / "locked" / "run").exists()


def test_everything_it_writes_is_the_users_alone(tmp_path: Path) -> None:
    with rankscope.profile(tmp_path / "run") as p:
        p.log(loss=float("nan"))
        p.step()
    files = [path for path in (tmp_path / "run").rglob("*") if path.is_file()]
    assert {"manifest.json", "pulse.jsonl", "events.jsonl"} <= {path.name for path in files}
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}


def test_probes_are_switched_and_an_unknown_one_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    asked = {"memory": False, "memroy": True}
    with caplog.at_level(logging.WARNING, "rankscope"), rankscope.profile(tmp_path / "run", probes=asked) as p:
        p.step()
    found = one(tmp_path / "run")
    assert found.manifest.probes["memory"] == "off" and "memory" not in found.pulse[0]
    assert any("memroy" in record.message for record in caplog.records)


def test_a_probe_that_fails_is_said_once_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from rankscope.collector.probes import memory

    def broken(self: Any, step: int) -> None:
        raise RuntimeError("no such thing")

    monkeypatch.setattr(memory.Memory, "step", broken)
    with caplog.at_level(logging.WARNING, "rankscope"), rankscope.profile(tmp_path / "run") as p:
        for _ in range(4):
            p.step()
    found = one(tmp_path / "run")
    assert found.manifest.probes["memory"] == "failed: RuntimeError: no such thing"
    assert found.manifest.probes["gc_pauses"] == "on" and len(found.pulse) == 4
    assert found.kinds().count("probe_failed") == 1
    assert len([record for record in caplog.records if "memory" in record.message]) == 1


def test_a_probe_that_lacks_what_it_needs_is_skipped_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rankscope.collector.probe import Unavailable
    from rankscope.collector.probes import memory

    def absent(self: Any, place: Any) -> None:
        raise Unavailable("no memory here")

    monkeypatch.setattr(memory.Memory, "start", absent)
    with rankscope.profile(tmp_path / "run") as p:
        p.step()
    found = one(tmp_path / "run")
    assert found.manifest.probes["memory"] == "skipped: no memory here" and "memory" not in found.pulse[0]


def test_a_session_that_can_not_begin_leaves_training_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> None:
        raise RuntimeError("no seat")

    monkeypatch.setattr("rankscope.collector.ranks.seat", broken)
    with caplog.at_level(logging.WARNING, "rankscope"), rankscope.profile(tmp_path / "run") as p:
        p.step()
    assert len(caplog.records) == 1 and "no seat" in caplog.records[0].message


def test_garbage_collection_is_in_the_line_and_long_pauses_are_events(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import gc

    from rankscope.collector.probes import gc_pauses

    monkeypatch.setattr(gc_pauses, "LONG_NS", 0)
    before = list(gc.callbacks)
    with rankscope.profile(tmp_path / "run") as p:
        gc.collect()
        p.step()
    found = one(tmp_path / "run")
    assert found.pulse[0]["gc_ns"] > 0
    pauses = [event for event in found.events if event["kind"] == "gc"]
    assert max(event["generation"] for event in pauses) == 2 and all(event["pause_ns"] > 0 for event in pauses)
    assert gc.callbacks == before


def test_resident_memory_is_in_the_line(tmp_path: Path) -> None:
    if not Path("/proc/self/statm").exists():
        pytest.skip("this system has no /proc")
    with rankscope.profile(tmp_path / "run") as p:
        p.step()
    assert one(tmp_path / "run").pulse[0]["memory"]["host_bytes"] > 1_000_000  # an interpreter alone has ten times that


def test_one_line_at_the_end_says_where_it_is_and_what_it_cost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RANKSCOPE_QUIET", "0")
    with rankscope.profile(tmp_path / "my run") as p:
        p.step()
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1
    assert said[0].startswith(f"rankscope: 1 step in {tmp_path / 'my run'}, own cost ")
    assert said[0].endswith(f"next: rankscope report '{tmp_path / 'my run'}'")  # to be pasted into a shell


def test_other_ranks_end_without_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RANKSCOPE_QUIET", "0")
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with rankscope.profile(tmp_path / "run") as p:
        p.step()
    assert capsys.readouterr().err == ""
    assert one(tmp_path / "run").folder.name.startswith("00001-")


def test_a_wrapped_loader_counts_its_waits_as_data(tmp_path: Path) -> None:
    loader = rankscope.wrap_loader([1, 2, 3])
    assert list(loader) == [1, 2, 3] and len(loader) == 3 and loader.index(2) == 1
    assert list(copy.copy(loader)) == [1, 2, 3]
    with rankscope.profile(tmp_path / "run") as p:
        for _ in loader:
            p.step()
    pulse = one(tmp_path / "run").pulse
    assert len(pulse) == 3 and all(line["stages"]["data"] > 0 for line in pulse)


def test_the_manifest_is_plain_json_of_the_contract(tmp_path: Path) -> None:
    with rankscope.profile(tmp_path / "run", mode="pulse") as p:
        p.step()
    found = one(tmp_path / "run")
    text = json.loads((found.folder / "manifest.json").read_text())
    assert text["schema_version"] == 1 and text["mode"] == "pulse" and text["pid"] == os.getpid()
    assert {"hooks", "hooks_ns", "share", "budget_share", "every", "start_ns"} <= set(text["overhead"])
    assert {"restarts", "lost_steps", "goodput_share"} <= set(text["job"])
