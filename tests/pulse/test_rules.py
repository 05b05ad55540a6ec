"""Rules that a run directory serves: each on both sides of its threshold, and skipped without a signal."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from runs_made import BEGIN, MS, Job, append

import rankscope
from rankscope.analyzers.findings import Diagnosis, Finding

HOUR = 3600 * 10**9


def diagnosed(place: Path) -> Diagnosis:
    found = rankscope.load(place, cache=False, jobs=1).diagnose()
    assert found.rules.failed == []
    return found


def finding(place: Path, rule: str) -> Finding | None:
    """What the rule found; None: it passed."""
    diagnosis = diagnosed(place)
    found = [entry for entry in diagnosis.findings if entry.rule == rule]
    assert len(found) <= 1 and (found or rule in diagnosis.rules.passed)
    return found[0] if found else None


def skipped(place: Path) -> set[str]:
    return {entry.rule for entry in diagnosed(place).rules.skipped}


def inconclusive(place: Path) -> dict[str, str]:
    return {entry.rule: entry.reason for entry in diagnosed(place).rules.inconclusive}


# ---- time ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("data_ms", "found"), [(9, False), (13, True)])
def test_data_above_five_per_cent_of_the_step_starves_it(tmp_path: Path, data_ms: float, found: bool) -> None:
    Job(ranks=2, stages={"data": data_ms, "forward": 60, "backward": 120, "optimizer": 12}, noise=0.0).write(tmp_path)
    starved = finding(tmp_path, "data-starved")
    assert (starved is not None) == found
    if starved is not None:
        assert starved.cost_ns == 13 * MS and starved.ranks == []


def test_the_loader_of_a_device_may_hide_behind_it(tmp_path: Path) -> None:
    stages = {"data": 30, "forward": 60, "backward": 120}
    Job(ranks=2, stages=stages, device="NVIDIA H100").write(tmp_path / "unknown")
    assert "hidden behind the device" in inconclusive(tmp_path / "unknown")["data-starved"]
    for name, ms in (("hidden", 1), ("exposed", 30)):
        Job(
            ranks=2, stages=stages, device="NVIDIA H100",
            change=lambda rank, step, record, ms=ms: record | {"device": record["stages"] | {"data": ms * MS}},
        ).write(tmp_path / name)  # fmt: skip
    assert finding(tmp_path / "hidden", "data-starved") is None
    assert finding(tmp_path / "exposed", "data-starved") is not None


@pytest.mark.parametrize(("every", "found"), [(100, False), (20, True)])
def test_checkpoints_are_priced_over_all_steps_on_the_rank_with_most(tmp_path: Path, every: int, found: bool) -> None:
    def saving(rank: int, step: int, record: dict[str, Any]) -> dict[str, Any]:
        if rank == 1 and step % every == every - 1:
            record["stages"]["checkpoint"] = 100 * MS
            record["wait"]["checkpoint"] = 0
            record["wall_ns"] += 100 * MS
        return record

    Job(ranks=2, steps=101, change=saving, noise=0.0).write(tmp_path)
    stall = finding(tmp_path, "checkpoint-stall")
    assert (stall is not None) == found
    if stall is not None:
        assert stall.cost_ns == pytest.approx(5 * 100 * MS / 100)
        assert next(entry.value for entry in stall.evidence if entry.label == "rank with most") == 1


@pytest.mark.parametrize(("times", "found"), [(1.5, False), (4, True)])
def test_leading_steps_twice_as_long_are_warm_up(tmp_path: Path, times: float, found: bool) -> None:
    def slow(rank: int, step: int, record: dict[str, Any]) -> dict[str, Any]:
        return record | {"wall_ns": round(record["wall_ns"] * (times if step < 2 else 1))}

    Job(ranks=2, steps=30, change=slow).write(tmp_path)
    warm = finding(tmp_path, "warm-up-in-average")
    assert (warm is not None) == found
    assert warm is None or warm.message.startswith("Steps 0, 1 are warm-up")


def test_a_first_step_that_weighs_nothing_is_not_worth_a_word(tmp_path: Path) -> None:
    Job(
        ranks=2, steps=400, change=lambda rank, step, record: record | {"wall_ns": record["wall_ns"] * (3 if step == 0 else 1)}
    ).write(tmp_path)  # fmt: skip
    assert finding(tmp_path, "warm-up-in-average") is None


# ---- the collector ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("share", "severity"), [(0.009, None), (0.012, "note"), (0.06, "warning")])
def test_own_overhead_is_measured_against_its_budget(tmp_path: Path, share: float, severity: str | None) -> None:
    def overhead(rank: int) -> dict[str, float]:
        return {"share": share if rank == 1 else 0.001, "budget_share": 0.01, "every": 4}

    Job(ranks=3, steps=12, manifest={"overhead": overhead}).write(tmp_path)
    found = finding(tmp_path, "own-overhead")
    assert (found.severity if found else None) == severity
    if found is not None:
        assert found.ranks == [] and found.where == "On rank 1." and "one step in 4" in found.message


def test_a_killed_rank_is_judged_by_its_steps_own_account(tmp_path: Path) -> None:
    Job(ranks=2, steps=12, manifest={"overhead": {}}).write(tmp_path)
    collector = diagnosed(tmp_path).collector
    assert collector is not None and collector.overhead_share == pytest.approx(90_000 / (204 * MS), rel=0.1)


# ---- the job ---------------------------------------------------------------------------------------------------------


def restarted(place: Path, steps: int, saved: int) -> None:
    """An attempt that failed after so many steps, of which a checkpoint kept some; then one of 60 steps that finished."""
    folders = Job(ranks=2, steps=steps, manifest={"ended": "exception: RuntimeError: x"}).write(place)
    for folder in folders:
        append(folder, "events.jsonl", {"kind": "checkpoint", "unix_ns": BEGIN, "step": saved, "what": "torch.save"})
        append(folder, "events.jsonl", {"kind": "checkpoint", "unix_ns": BEGIN, "step": saved + 5, "what": "load"})
    Job(ranks=2, steps=60, attempt=1, begin_ns=BEGIN + 60 * 10**9).write(place)


def test_steps_after_the_last_checkpoint_are_lost_to_a_restart(tmp_path: Path) -> None:
    restarted(tmp_path, steps=40, saved=28)
    lost = finding(tmp_path, "lost-steps")
    assert lost is not None and lost.message.startswith("1 restart cost 12 steps")
    job = diagnosed(tmp_path).job
    assert job is not None and (job.attempts, job.restarts, job.lost_steps) == (2, 1, 12)
    wall = 60 + 60 * 0.210  # seconds: until the second attempt began, and its steps (transfer is 6 ms of each)
    assert job.wall_ns == pytest.approx(wall * 10**9, rel=0.03)
    assert job.goodput_share == pytest.approx((40 + 60 - 12) * 0.204 / wall, rel=0.05)


def test_a_restart_right_after_a_checkpoint_loses_nothing(tmp_path: Path) -> None:
    restarted(tmp_path, steps=40, saved=40)
    assert finding(tmp_path, "lost-steps") is None


def test_values_that_are_no_numbers_are_critical(tmp_path: Path) -> None:
    folders = Job(ranks=2, manifest={"job": {"not_finite": {"loss": 31}}}).write(tmp_path / "told")
    append(folders[1], "events.jsonl", {"kind": "not_finite", "unix_ns": BEGIN, "step": 31, "of_step": 29, "name": "loss"})
    found = finding(tmp_path / "told", "overflow")
    assert found is not None and found.severity == "critical"
    assert found.message == "Loss was not a finite number 31 times, first in step 29."
    assert found.where == "On rank 1."
    Job(
        ranks=2, change=lambda rank, step, record: record | ({"log": {"loss": float("nan")}} if step == 9 else {})
    ).write(tmp_path / "written")  # fmt: skip
    assert finding(tmp_path / "written", "overflow") is not None


@pytest.mark.parametrize(("skipped_steps", "found"), [(4, False), (20, True)])
def test_skipped_steps_beyond_what_a_loss_scale_does_by_design(tmp_path: Path, skipped_steps: int, found: bool) -> None:
    Job(ranks=2, steps=60, manifest={"job": {"skipped_steps": skipped_steps}}).write(tmp_path)
    overflow = finding(tmp_path, "overflow")
    assert (overflow is not None) == found
    assert overflow is None or "20 steps of 60 were skipped (33.3 %)" in overflow.message


def test_one_in_two_thousand_is_by_design(tmp_path: Path) -> None:
    Job(ranks=1, steps=1200, manifest={"job": {"skipped_steps": 6}}).write(tmp_path)
    assert finding(tmp_path, "overflow") is None


# ---- how it ended ----------------------------------------------------------------------------------------------------


def ends(**told: tuple[str | None, int]) -> dict[str, Any]:
    """How each rank ended, and when, seconds after the begin; the others finished."""

    def of(rank: int) -> tuple[str | None, int]:
        return told.get(f"r{rank}", ("finished", 20))

    return {
        "ended": lambda rank: of(rank)[0],
        "ended_unix_ns": lambda rank: None if of(rank)[0] is None else BEGIN + of(rank)[1] * 10**9,
    }


def test_a_run_that_finished_has_no_early_end(tmp_path: Path) -> None:
    Job(ranks=3, steps=12).write(tmp_path)
    assert finding(tmp_path, "early-end") is None


def test_the_first_to_fail_is_named_and_not_those_it_took_along(tmp_path: Path) -> None:
    error = "exception: OutOfMemoryError: CUDA out of memory"
    later = ("exception: DistBackendError: connection closed by peer", 50)
    Job(ranks=4, steps=12, manifest=ends(r0=("signal 15", 55), r1=later, r2=(error, 40), r3=later)).write(tmp_path)
    found = finding(tmp_path, "early-end")
    assert found is not None and found.ranks == [2] and found.severity == "critical"
    assert found.message == "Rank 2 failed after 12 steps: OutOfMemoryError: CUDA out of memory."
    assert "00002-" in found.where and "on host-0" in found.where
    assert [e.value for e in found.evidence if e.label.startswith("rank ")] == ["signal 15", later[0], later[0]]


def test_a_rank_that_ended_without_a_word_was_killed(tmp_path: Path) -> None:
    later = ("exception: DistBackendError: connection closed by peer", 50)
    Job(ranks=3, steps=12, manifest=ends(r0=later, r1=(None, 0), r2=later)).write(tmp_path)
    diagnosis = diagnosed(tmp_path)
    found = next(entry for entry in diagnosis.findings if entry.rule == "early-end")
    assert found.ranks == [1] and found.message.startswith("Rank 1 stopped without a word after 12 steps: killed")
    assert diagnosis.verdict.startswith("Rank 1 stopped without a word")


def test_signals_alone_are_somebodys_wish(tmp_path: Path) -> None:
    Job(ranks=2, steps=12, manifest=ends(r0=("signal 15", 30), r1=("signal 15", 31))).write(tmp_path)
    found = finding(tmp_path, "early-end")
    assert found is not None and found.severity == "warning" and "was ended by signal 15" in found.message


def test_a_job_of_which_nobody_has_ended_may_be_running(tmp_path: Path) -> None:
    Job(ranks=2, steps=12, manifest={"ended": None, "ended_unix_ns": None}).write(tmp_path)
    assert "running" in inconclusive(tmp_path)["early-end"]


def test_a_rank_that_left_nothing_is_said(tmp_path: Path) -> None:
    shutil.rmtree(Job(ranks=4, steps=12).write(tmp_path)[2])
    found = finding(tmp_path, "early-end")
    assert found is not None and found.ranks == [2]
    assert found.message == "Rank 2 of 4 left no record: never started, or lost with the host."


def dump(folder: Path, reason: str, last: int, done: int) -> None:
    """As gloo leaves it: three collectives of one group."""
    entries = [
        {"record_id": n, "pg_id": 0, "process_group": ["0", "default_pg"], "collective_seq_id": n, "p2p_seq_id": 0, "op_id": n,
         "profiling_name": "gloo:all_reduce", "input_sizes": [[4]], "input_dtypes": ["Float"], "output_sizes": [[4]],
         "output_dtypes": ["Float"], "is_p2p": False, "retired": n <= done, "state": "scheduled", "time_created_ns": BEGIN + n}
        for n in range(1, last + 1)
    ]  # fmt: skip
    status = {"0": {"last_enqueued_collective": str(last), "last_completed_collective": str(done)}}
    config = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2]"}}
    text = json.dumps({"version": "2.10", "pg_config": config, "pg_status": status, "entries": entries})
    (folder / f"flight_recorder-{reason}.json").write_text(text)


def test_the_rank_that_did_not_come_is_named_from_dumps_of_a_hang(tmp_path: Path) -> None:
    folders = Job(ranks=3, steps=12, manifest={"ended": "signal 15"}).write(tmp_path)
    for rank, folder in enumerate(folders):
        dump(folder, "hang", *((5, 4) if rank != 1 else (4, 4)))
        dump(folder, "stop", *((5, 4) if rank != 1 else (4, 4)))
    diagnosis = diagnosed(tmp_path)
    found = next(entry for entry in diagnosis.findings if entry.rule == "hang")
    assert found.ranks == [1] and found.severity == "critical"
    assert any("00001-" in text for text in (found.where,)) and "rankscope hang" in found.advice
    assert diagnosis.verdict.startswith(found.message.rstrip("."))


def test_whoever_a_hang_made_fail_is_not_the_one_to_name(tmp_path: Path) -> None:
    timeout = ("exception: RuntimeError: [/x/pair.cc:5] Timed out waiting 20000ms", 40)
    folders = Job(ranks=3, steps=12, manifest=ends(r0=timeout, r1=("signal 15", 50), r2=timeout)).write(tmp_path)
    for rank, folder in enumerate(folders):
        dump(folder, "signal" if rank == 1 else "exception", *((5, 4) if rank != 1 else (4, 4)))
    diagnosis = diagnosed(tmp_path)
    assert [(entry.rule, entry.ranks) for entry in diagnosis.findings if entry.ranks] == [("hang", [1])]
    assert "hang" in inconclusive(tmp_path)["early-end"]


def test_who_waits_for_a_rank_that_had_failed_is_not_hung(tmp_path: Path) -> None:
    told = ends(r0=("exception: RuntimeError: peer closed", 50), r1=("exception: ValueError: x", 40), r2=("signal 15", 60))
    folders = Job(ranks=3, steps=12, manifest=told).write(tmp_path)
    for rank, folder in enumerate(folders):
        dump(folder, "exception", *((5, 4) if rank != 1 else (4, 4)))
    assert [(entry.rule, entry.ranks) for entry in diagnosed(tmp_path).findings if entry.ranks] == [("early-end", [1])]


def test_what_was_pending_at_a_regular_end_is_no_hang(tmp_path: Path) -> None:
    for rank, folder in enumerate(Job(ranks=3, steps=12).write(tmp_path)):
        dump(folder, "stop", *((5, 4) if rank != 1 else (4, 4)))
    assert finding(tmp_path, "hang") is None


@pytest.mark.parametrize("over", [True, False], ids=["passed", "stands"])
def test_a_stall_after_which_the_training_went_on_is_no_hang(over: bool, tmp_path: Path) -> None:
    for rank, folder in enumerate(Job(ranks=3, steps=12).write(tmp_path)):
        dump(folder, "hang", *((5, 4) if rank != 1 else (4, 4)))
        append(folder, "events.jsonl", {"kind": "stall", "unix_ns": 5, "step": 7, "seconds": 11.0})
        if over:
            append(folder, "events.jsonl", {"kind": "stall_over", "unix_ns": 9, "step": 7, "of_step": 7, "seconds": 30.0})
    assert (finding(tmp_path, "hang") is None) is over


def test_a_dump_cut_off_by_a_kill_is_named(tmp_path: Path) -> None:
    folders = Job(ranks=2, steps=12).write(tmp_path)
    (folders[1] / "flight_recorder-hang.json").write_text('{"version": "2.10", "entr')
    assert any("flight_recorder-hang.json" in text for text in diagnosed(tmp_path).warnings)


def test_without_a_dump_the_line_that_makes_one_is_said(tmp_path: Path) -> None:
    Job(ranks=2, steps=12).write(tmp_path)
    assert "hang" in skipped(tmp_path)


def test_a_run_without_a_single_step_says_what_happened(tmp_path: Path) -> None:
    Job(ranks=2, steps=0, manifest={"ended": "exception: FileNotFoundError: data"}).write(tmp_path)
    diagnosis = diagnosed(tmp_path)
    assert diagnosis.verdict == (
        "Rank 0 failed after 0 steps: FileNotFoundError: data. Nothing could be measured: no rank recorded a step."
    )
    assert diagnosis.pulse is None and diagnosis.job is not None
