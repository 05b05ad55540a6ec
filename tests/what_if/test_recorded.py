"""Recorded runs, replayed: the unchanged replay is the run, and a fix returns what was planted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import rankscope
from rankscope.analyzers.errors import BadSelection
from rankscope.analyzers.findings import CannotTell
from rankscope.analyzers.what_if.fixes import saving
from rankscope.analyzers.what_if.job import Job
from rankscope.analyzers.what_if.recorded import job_of
from rankscope.analyzers.what_if.slowdown import slowdown
from rankscope.simulator import Scenario, faults, simulate
from rankscope.ui.cli import main

MS = 1_000_000
SHARDINGS = [{"sharding": "ddp"}, {"sharding": "fsdp"}, {"sharding": "hsdp", "ranks_per_host": 4}]


def replayed(folder: Path, **scenario: object) -> Job:
    simulate(Scenario(**{"ranks": 8, "steps": 8, "layers": 6} | scenario)).write(folder)
    return job_of(rankscope.load(folder, cache=False, jobs=1).analysis)


@pytest.mark.parametrize("sharding", SHARDINGS, ids=lambda s: s["sharding"])
def test_fixing_a_slow_rank_returns_what_the_run_without_it_shows(sharding: dict, tmp_path: Path) -> None:
    job = replayed(tmp_path / "slow", faults=(faults.slow_compute(5, 4 * MS),), **sharding)
    found = slowdown(job)
    again = slowdown(replayed(tmp_path / "mended", **sharding))
    # a recorded run has launch gaps between collectives, which a replay leaves out
    assert max(found.replay_error_share, again.replay_error_share) < 0.005
    assert found.slowest == ["rank 5"]
    # a tenth is what is asked of predicted savings
    saved = saving(job, "rank 5 = typical", found.step_ns, 0).saved_ns
    assert saved == pytest.approx(found.measured_ns - again.measured_ns, rel=0.1)
    assert saving(job, "rank 2 = typical", found.step_ns, 0).saved_ns == pytest.approx(0, abs=0.1 * MS)


def test_a_slow_loader_is_worth_what_it_takes(tmp_path: Path) -> None:
    job = replayed(tmp_path, faults=(faults.slow_loader(6 * MS),))
    found = slowdown(job)
    assert saving(job, "data_loading x 0", found.step_ns, 0).saved_ns == pytest.approx(6 * MS, rel=0.1)
    assert saving(job, "data_loading x 0.5", found.step_ns, 0).saved_ns == pytest.approx(3 * MS, rel=0.1)


def test_bandwidth_is_worth_what_is_exposed(tmp_path: Path) -> None:
    job = replayed(tmp_path, faults=(faults.late_communication(6 * MS),))
    unchanged = slowdown(job).step_ns
    whole = saving(job, "communication x 0", unchanged, 0).saved_ns
    assert whole == pytest.approx(6 * MS, rel=0.1)
    assert saving(job, "network x 2", unchanged, 0).saved_ns == pytest.approx(whole / 2, rel=0.01)


def test_a_healthy_run_has_nothing_to_gain(tmp_path: Path) -> None:
    found = slowdown(replayed(tmp_path))
    assert found.slowdown == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize(
    "fix",
    [
        "",
        "rank 99 = typical",
        "stage 0 = typical",
        "network = typical",
        "network x 0",
        "__import__ x 2",
        "rank 1 x nan",
    ],
)
def test_bad_fixes_are_explained(fix: str, tmp_path: Path) -> None:
    with pytest.raises(BadSelection):
        saving(replayed(tmp_path, ranks=2, steps=4, layers=2), fix, 1, 0)


def test_a_run_without_steps_cannot_be_replayed(tmp_path: Path) -> None:
    (tmp_path / "rank-0.json").write_text(
        json.dumps(
            {"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1, "dur": 5}]}
        )
    )
    with pytest.raises(CannotTell):
        job_of(rankscope.load(tmp_path, cache=False).analysis)


def test_the_command_answers_people_and_machines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    simulate(Scenario(ranks=4, steps=6, layers=4, faults=(faults.slow_compute(2, 4 * MS),))).write(tmp_path)
    assert main(["what-if", str(tmp_path), "--no-cache"]) == 0
    text = capsys.readouterr().out
    assert "slowdown 1." in text and "rank 2 = typical" in text
    assert main(["what-if", str(tmp_path), "--no-cache", "--format", "json", "--fix", "rank 2 x 0.5"]) == 0
    content = json.loads(capsys.readouterr().out)
    keys = {
        "slowdown",
        "worker_share",
        "stage_share",
        "by_operation",
        "by_worker",
        "by_stage",
        "replay_error_share",
        "savings",
    }
    assert keys <= content.keys()
    assert content["by_stage"] is None and content["stage_reason"]
    assert [one["fix"] for one in content["savings"]] == ["rank 2 x 0.5"]
    assert main(["what-if", str(tmp_path), "--no-cache", "--fix", "rank 2 faster"]) == 2
    assert "is no fix" in capsys.readouterr().err
