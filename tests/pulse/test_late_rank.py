"""The pulse alone names the rank and the stage that delay the group, and nobody where nobody does or it cannot tell."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from runs_made import MEETS_DDP, MEETS_FSDP, MS, Job, append

import rankscope
from rankscope.analyzers.findings import Diagnosis, Finding
from rankscope.analyzers.pulse.late_rank import COARSE, LEADS
from rankscope.simulator import Scenario, faults, simulate

STEP_MS = 204.0  # of the job as it is made, without a delay
SM_CLOCK, HOT, POWER_CAP = 1900, 0x40, 0x04


def diagnosed(place: Path) -> Diagnosis:
    return rankscope.load(place, cache=False, jobs=1).diagnose()


def late(place: Path) -> Finding | None:
    """The finding that names a rank, if there is one; nothing else may name any."""
    diagnosis = diagnosed(place)
    assert diagnosis.rules.failed == []
    naming = [finding for finding in diagnosis.findings if finding.ranks]
    assert [finding.rule for finding in naming] in ([], ["straggler-rank"])
    return naming[0] if naming else None


def unsure(place: Path) -> str:
    """Why the rule cannot tell."""
    rules = diagnosed(place).rules
    return next((entry.reason for entry in rules.inconclusive if entry.rule == "straggler-rank"), "")


@pytest.mark.parametrize("share", [0.1, 0.2, 0.5])
@pytest.mark.parametrize("stage", ["data", "forward", "backward", "optimizer"])
@pytest.mark.parametrize("meets", [MEETS_DDP, MEETS_FSDP], ids=["ddp", "fsdp"])
def test_a_planted_delay_is_named_with_its_stage_and_priced(
    tmp_path: Path, meets: tuple[str, ...], stage: str, share: float
) -> None:
    delay = share * STEP_MS
    Job(ranks=4, steps=24, meets=meets, late={(2, stage): delay}, noise=0.04, seed=5).write(tmp_path)
    found = late(tmp_path)
    assert found is not None
    assert (found.ranks, found.stage) == ([2], stage)
    # what noise takes from the lead: the furthest of three healthy ranks is about one deviation ahead of their mean
    assert found.cost_ns == pytest.approx(delay * MS, abs=0.05 * STEP_MS * MS)
    assert found.cause == ("data" if stage == "data" else "compute")
    assert next(e.value for e in found.evidence if e.label == "stage") == stage
    assert "rank 2 on host-0" in found.where


@pytest.mark.parametrize("seed", range(12))
def test_healthy_ranks_are_not_named(tmp_path: Path, seed: int) -> None:
    meets = (MEETS_DDP, MEETS_FSDP)[seed % 2]
    Job(ranks=2 + seed % 3, steps=30 + seed, meets=meets, noise=0.05 * (1 + seed % 3), seed=seed).write(tmp_path)
    assert late(tmp_path) is None


def test_the_threshold_is_what_the_rank_alone_adds(tmp_path: Path) -> None:
    for name, share in (("below", 0.8 * COARSE), ("above", 1.3 * COARSE)):
        Job(ranks=2, steps=40, noise=0.0, late={(1, "forward"): share * STEP_MS}).write(tmp_path / name)
    assert late(tmp_path / "below") is None
    found = late(tmp_path / "above")
    assert found is not None and found.ranks == [1]


def test_a_rank_that_leads_in_some_steps_only_is_not_named(tmp_path: Path) -> None:
    def slow(every: int) -> Any:
        def change(rank: int, step: int, record: dict[str, Any]) -> dict[str, Any]:
            if rank == 1 and step % 10 < every:
                record["stages"]["forward"] += 60 * MS
                record["wall_ns"] += 60 * MS
            return record

        return change

    for name, every in (("often", int(10 * LEADS) + 1), ("seldom", int(10 * LEADS) - 2)):
        Job(ranks=3, steps=61, noise=0.001, change=slow(every)).write(tmp_path / name)
    assert late(tmp_path / "often") is not None
    assert late(tmp_path / "seldom") is None


def test_a_rank_that_was_slow_for_a_while_is_not_slow(tmp_path: Path) -> None:
    def change(rank: int, step: int, record: dict[str, Any]) -> dict[str, Any]:
        if rank == 1 and step < 85:
            record["stages"]["forward"] += 60 * MS
        return record

    Job(ranks=3, steps=100, noise=0.001, change=change).write(tmp_path)
    assert late(tmp_path) is None


def test_clocks_of_hosts_do_not_matter(tmp_path: Path) -> None:
    def skewed(rank: int, step: int, record: dict[str, Any]) -> dict[str, Any]:
        return record | {"begin_ns": record["begin_ns"] + rank * 86_400 * 10**9}

    for name, change in (("agreeing", lambda rank, step, record: record), ("apart", skewed)):
        Job(ranks=4, steps=30, late={(3, "optimizer"): 40}, change=change).write(tmp_path / name)
    together, apart = diagnosed(tmp_path / "agreeing"), diagnosed(tmp_path / "apart")
    assert together.pulse is not None and apart.pulse is not None
    assert together.pulse.frontier == apart.pulse.frontier
    assert [f.cost_ns for f in together.findings if f.ranks] == [f.cost_ns for f in apart.findings if f.ranks]


def test_increments_and_the_rest_make_up_the_mean_step(tmp_path: Path) -> None:
    Job(ranks=4, steps=41, late={(3, "optimizer"): 40}).write(tmp_path)
    pulse = diagnosed(tmp_path).pulse
    assert pulse is not None and pulse.frontier_ns is not None and pulse.rest_ns is not None
    shares = sum(share.ns for share in pulse.frontier)
    assert abs(shares - pulse.frontier_ns) <= len(pulse.frontier)  # each is rounded to the nanosecond
    walls = rankscope.load(tmp_path, cache=False).pulse().query("judged").groupby("step")["wall_ns"].max()
    assert pulse.frontier_ns + pulse.rest_ns == pytest.approx(walls.mean(), abs=2)


def test_a_rank_pushed_off_the_cores_that_it_shares_is_not_late(tmp_path: Path) -> None:
    def pushed(rank: int, step: int, record: dict[str, Any]) -> dict[str, Any]:
        lost = 60 * MS if rank == 1 else 0
        record["stages"]["forward"] += lost
        return record | {"queued": {"forward": lost + MS}, "wall_ns": record["wall_ns"] + lost}

    Job(ranks=4, steps=40, change=pushed).write(tmp_path / "one")
    assert late(tmp_path / "one") is None
    Job(ranks=4, steps=40, change=pushed, manifest={"host": lambda rank: f"host-{rank}"}).write(tmp_path / "several")
    found = late(tmp_path / "several")
    assert found is not None and (found.ranks, found.stage, found.cause) == ([1], "forward", "host")


def test_own_time_is_told_from_time_without_a_processor(tmp_path: Path) -> None:
    """Others on its cores gain what a sleeping rank gives away: by the clock alone it is not late."""

    def crowded(rank: int, step: int, record: dict[str, Any]) -> dict[str, Any]:
        lost = 0 if rank == 2 else 25 * MS
        record["stages"]["backward"] += lost
        return record | {"queued": {"backward": lost}, "wall_ns": record["wall_ns"] + lost}

    Job(ranks=4, steps=40, late={(2, "forward"): 25}, change=crowded).write(tmp_path / "known")
    found = late(tmp_path / "known")
    assert found is not None and (found.ranks, found.stage) == ([2], "forward")
    Job(
        ranks=4, steps=40, late={(2, "forward"): 25},
        change=lambda *told: {k: v for k, v in crowded(*told).items() if k != "queued"},
    ).write(tmp_path / "unknown")  # fmt: skip
    assert late(tmp_path / "unknown") is None


def test_garbage_collection_is_the_hosts_fault(tmp_path: Path) -> None:
    def collecting(rank: int, step: int, record: dict[str, Any]) -> dict[str, Any]:
        return record | ({"gc_ns": 38 * MS} if rank == 1 else {})

    Job(ranks=4, steps=40, late={(1, "forward"): 40}, change=collecting).write(tmp_path)
    found = late(tmp_path)
    assert found is not None and (found.stage, found.cause) == ("forward", "host")


@pytest.mark.parametrize(
    ("clock", "reasons", "celsius", "cause"),
    [
        (0.97, HOT, 70, "compute"),
        (0.90, HOT, 70, "thermal"),
        (0.90, POWER_CAP, 70, "power"),
        (0.90, 0, 70, "compute"),
        (0.90, 0, 90, "thermal"),
    ],
)
def test_a_clock_below_its_peers_gives_the_cause(tmp_path: Path, clock: float, reasons: int, celsius: int, cause: str) -> None:
    folders = Job(ranks=4, steps=40, late={(1, "forward"): 40}).write(tmp_path)
    for rank, folder in enumerate(folders):
        own = {"sm_clock_mhz": SM_CLOCK, "throttle_reasons": 0, "temperature_c": 60, "device": rank}
        if rank == 1:
            own |= {"sm_clock_mhz": round(SM_CLOCK * clock), "throttle_reasons": reasons, "temperature_c": celsius}
        append(folder, "nvml.jsonl", *({"unix_ns": n, **own} for n in range(20)))
    found = late(tmp_path)
    assert found is not None and found.cause == cause
    assert next(e.value for e in found.evidence if "SM clock" in e.label) == pytest.approx(clock, abs=1e-3)


# ---- what cannot be told ---------------------------------------------------------------------------------------------


def test_two_ranks_alike_are_not_told_apart(tmp_path: Path) -> None:
    Job(ranks=5, steps=60, late={(1, "forward"): 40, (3, "forward"): 40}).write(tmp_path)
    assert late(tmp_path) is None
    assert "ranks 1, 3 are each at least 5.00 % of the step behind" in unsure(tmp_path)


def test_without_waits_nobody_is_named(tmp_path: Path) -> None:
    def silent(rank: int, step: int, record: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in record.items() if key != "wait"}

    Job(ranks=4, steps=40, late={(1, "forward"): 60}, change=silent).write(tmp_path)
    assert late(tmp_path) is None
    assert "does not say how long the ranks were blocked" in unsure(tmp_path)


def test_steps_of_which_a_rank_does_not_know_its_waits_are_left_out(tmp_path: Path) -> None:
    def learning(rank: int, step: int, record: dict[str, Any]) -> dict[str, Any]:
        if rank == 1 and step < 6:
            del record["wait"]["backward"]
        return record

    Job(ranks=4, steps=40, late={(1, "forward"): 40}, change=learning).write(tmp_path)
    diagnosis = diagnosed(tmp_path)
    assert diagnosis.run.usable_steps == list(range(6, 40))
    assert late(tmp_path) is not None


def test_ranks_that_never_wait_for_each_other_are_not_compared(tmp_path: Path) -> None:
    Job(ranks=4, steps=40, meets=(), late={(1, "forward"): 60}).write(tmp_path)
    assert "no rank was seen waiting" in unsure(tmp_path)


@pytest.mark.parametrize(("description", "named"), [("mesh_pp", False), ("pp", False), ("mesh_dp", True), ("upper", True)])
def test_stages_of_a_pipeline_are_not_compared(tmp_path: Path, description: str, named: bool) -> None:
    groups = [{"name": "1", "description": description, "ranks": [0, 1]}]
    Job(ranks=4, steps=40, late={(1, "forward"): 60}, manifest={"groups": groups}).write(tmp_path)
    assert (late(tmp_path) is not None) == named
    assert named or "stages of a pipeline" in unsure(tmp_path)


def test_few_steps_are_too_few_unless_the_delay_is_large(tmp_path: Path) -> None:
    Job(ranks=4, steps=6, noise=0.001, late={(1, "forward"): 15}).write(tmp_path / "small")
    assert "cannot tell a slow rank from chance: record 9 steps or more" in unsure(tmp_path / "small")
    Job(ranks=4, steps=6, noise=0.001, late={(1, "forward"): 60}).write(tmp_path / "large")
    found = late(tmp_path / "large")
    assert found is not None and found.confidence <= 0.5


def on_device(rank: int, step: int, record: dict[str, Any]) -> dict[str, Any]:
    """As NCCL leaves it: the host never waits, the device's stages hold the waiting."""
    return record | {"device": record["stages"], "wait": dict.fromkeys(record["stages"], 0)}


def test_a_device_without_device_times_is_not_judged_by_its_host(tmp_path: Path) -> None:
    Job(ranks=4, steps=40, device="NVIDIA H100", late={(1, "data"): 60}).write(tmp_path)
    assert "no device times were recorded" in unsure(tmp_path)


@pytest.mark.parametrize("stage", ["data", "optimizer"])
def test_on_a_device_what_lies_outside_forward_and_backward_is_named(tmp_path: Path, stage: str) -> None:
    Job(ranks=4, steps=40, device="NVIDIA H100", late={(1, stage): 60}, change=on_device).write(tmp_path)
    found = late(tmp_path)
    assert found is not None and (found.ranks, found.stage) == ([1], stage)
    assert found.gpu_hours_per_day is not None


def test_on_a_device_what_lies_inside_backward_is_left_to_a_trace(tmp_path: Path) -> None:
    Job(ranks=4, steps=40, device="NVIDIA H100", late={(1, "backward"): 60}, change=on_device).write(tmp_path)
    assert late(tmp_path) is None
    assert "record a window of the profiler" in unsure(tmp_path)


def test_one_rank_of_several_is_nobody_to_compare_with(tmp_path: Path) -> None:
    Job(ranks=4, steps=20).write(tmp_path)
    diagnosis = rankscope.load(tmp_path, cache=False, ranks=[1]).diagnose()
    assert "straggler-rank" in [entry.rule for entry in diagnosis.rules.skipped]
    Job(ranks=1, steps=20).write(tmp_path / "alone")
    assert "straggler-rank" in diagnosed(tmp_path / "alone").rules.passed


def test_a_rank_that_was_killed_early_does_not_take_the_others_steps_away(tmp_path: Path) -> None:
    def killed(rank: int, step: int, record: dict[str, Any]) -> dict[str, Any] | None:
        return None if rank == 3 and step > 2 else record

    Job(ranks=4, steps=60, late={(1, "forward"): 60}, change=killed).write(tmp_path)
    found = late(tmp_path)
    assert found is not None and found.ranks == [1]


# ---- with traces -----------------------------------------------------------------------------------------------------


def test_where_traces_name_the_rank_the_pulse_is_evidence_and_named_once(tmp_path: Path) -> None:
    folders = Job(ranks=4, steps=40, late={(2, "forward"): 60}).write(tmp_path / "run")
    fault = faults.slow_compute(2)
    files = simulate(Scenario(ranks=4, steps=12, layers=4, faults=(fault,))).write(tmp_path / "apart")
    for folder, file in zip(folders, files, strict=True):
        (folder / "traces").mkdir()
        file.rename(folder / "traces" / file.name)
    diagnosis = diagnosed(tmp_path / "run")
    found = [finding for finding in diagnosis.findings if finding.rule == "straggler-rank"]
    assert [(finding.ranks, finding.stage) for finding in found] == [([2], "forward")]
    labels = [entry.label for entry in found[0].evidence]
    assert "collectives it came to last" in labels and "stage, by the pulse" in labels


def test_a_delay_that_traces_do_not_show_is_named_with_less_confidence(tmp_path: Path) -> None:
    chance = random.Random(1)
    folders = Job(ranks=4, steps=40, late={(2, "forward"): 60}, seed=chance.randrange(9)).write(tmp_path / "run")
    files = simulate(Scenario(ranks=4, steps=12, layers=4)).write(tmp_path / "apart")
    for folder, file in zip(folders, files, strict=True):
        (folder / "traces").mkdir()
        file.rename(folder / "traces" / file.name)
    found = [finding for finding in diagnosed(tmp_path / "run").findings if finding.rule == "straggler-rank"]
    assert [finding.ranks for finding in found] == [[2]]
    assert found[0].confidence <= 0.5
    assert any(entry.label == "in the steps that were traced" for entry in found[0].evidence)
