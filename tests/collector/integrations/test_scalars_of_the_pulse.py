"""Figures that go to loggers: what they are, which steps, and what a logger that fails does. Needs no logger."""

from __future__ import annotations

import logging
import threading
from pathlib import Path

import pytest
from integrated import left

import rankscope
from rankscope.collector.integrations import scalars
from rankscope.collector.integrations.scalars import Rows, Scalars, figures


class Kept(Scalars):
    name = "kept"

    def __init__(self, every: int = 1, breaks: bool = False) -> None:
        super().__init__(every)
        self.rows: Rows = []
        self.breaks, self.writes, self.closed = breaks, 0, 0

    def write(self, rows: Rows) -> None:
        self.writes += 1
        if self.breaks:
            raise ConnectionError("planted")
        self.rows += rows

    def close(self) -> None:
        self.closed += 1


def train(run_dir: Path, sink: Scalars, steps: int = 6) -> None:
    with rankscope.profile(run_dir).add(sink) as p:
        for _ in range(steps):
            with p.span("forward"):
                pass
            p.step()


def test_figures_are_seconds_and_what_is_not_known_is_absent() -> None:
    line = {
        "step": 3,
        "wall_ns": 2_000_000_000,
        "stages": {"forward": 500_000_000},
        "memory": {"host_bytes": 7, "x": None},
    }
    assert figures(line) == {"rankscope/step_s": 2.0, "rankscope/stage_s/forward": 0.5, "rankscope/host_bytes": 7}
    waited = {**line, "wait": {"forward": 1_000_000}, "device": {"forward": 2_000_000}, "memory": {}}
    assert figures(waited)["rankscope/wait_s/forward"] == 0.001
    assert figures(waited)["rankscope/device_s/forward"] == 0.002


def test_every_step_of_the_pulse_arrives_and_the_logger_is_closed_once(tmp_path: Path) -> None:
    sink = Kept()
    train(tmp_path / "run", sink)
    (found,) = left(tmp_path / "run")
    assert [(step, begin) for step, begin, _ in sink.rows] == [(line["step"], line["begin_ns"]) for line in found.pulse]
    assert [values["rankscope/step_s"] for *_, values in sink.rows] == [line["wall_ns"] / 1e9 for line in found.pulse]
    assert (len(sink.rows), sink.closed, found.manifest.probes["kept"]) == (6, 1, "on")


def test_every_other_step_is_asked_for_by_number(tmp_path: Path) -> None:
    sink = Kept(every=4)
    train(tmp_path / "run", sink)
    assert [step for step, *_ in sink.rows] == [0, 4]
    with pytest.raises(ValueError, match="every"):
        Kept(every=0)


def test_a_logger_that_fails_is_noted_once_and_given_nothing_more(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scalars, "EVERY_S", 0.001)
    sink = Kept(breaks=True)
    with (
        caplog.at_level(logging.WARNING, logger="rankscope"),
        rankscope.profile(tmp_path / "run").add(sink) as p,
    ):
        p.step()
        assert sink._thread is not None
        sink._thread.join(10)
        p.step()
    (found,) = left(tmp_path / "run")
    assert (sink.writes, sink.closed) == (1, 0)
    assert found.manifest.steps == 2 and found.manifest.ended == "finished"
    assert found.manifest.probes["kept"] == "failed: ConnectionError: planted"
    assert found.failures() == ["kept"]
    assert len([record for record in caplog.records if "kept" in record.getMessage()]) == 1


def test_a_logger_that_never_answers_holds_up_neither_the_records_nor_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scalars, "EVERY_S", 0.001)
    monkeypatch.setattr(scalars, "PATIENCE_S", 0.05)
    sink, released = Kept(), threading.Event()
    monkeypatch.setattr(sink, "write", lambda rows: released.wait(60))
    train(tmp_path / "run", sink)
    try:
        (found,) = left(tmp_path / "run")
        assert len(found.pulse) == 6 and found.manifest.ended == "finished"
        assert found.manifest.probes["kept"].startswith("failed: TimeoutError: its last write took more than 0.05 s")
        assert sink._thread is not None and sink._thread.is_alive() and sink._thread.daemon
    finally:
        released.set()


def test_its_switch_turns_it_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANKSCOPE_KEPT", "0")
    sink = Kept()
    train(tmp_path / "run", sink)
    (found,) = left(tmp_path / "run")
    assert (sink.rows, found.manifest.probes["kept"]) == ([], "off")
