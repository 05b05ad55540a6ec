"""Faults planted in recorded runs: what they change is what a run with that fault shows, and nothing else changes."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

import rankscope
from rankscope.analyzers.findings import Diagnosis
from rankscope.simulator import Scenario, faults, simulate
from rankscope.simulator.splicing import Clock, Plant, PlantKind, RecordedRun, Spliceable, check
from tests.corpus import corpus

MS = 1_000_000
JOB = {"ranks": 4, "steps": 9, "layers": 4, "seed": 5}
ACTING = [PlantKind.SLOW_COMPUTE, PlantKind.SLOW_LOADER, PlantKind.HOST_PAUSE]
REAL = [
    "kineto-dlrm-8rank", "kineto-torchrec-4rank/resnet18-2rank", "kineto-torchrec-4rank/late-rank", "gloo-4rank/ddp",
]  # fmt: skip


def diagnosed(folder: Path) -> Diagnosis:
    return rankscope.diagnose(folder, cache=False, jobs=1)


def spliceable(folder: Path) -> Spliceable:
    """A healthy simulated run, as if it had been recorded."""
    simulate(Scenario(**JOB)).write(folder)
    return Spliceable(RecordedRun.read(folder))


def same(left: Diagnosis, right: Diagnosis) -> bool:
    """All figures alike."""
    parts = ("attribution", "collectives", "clock", "kernels", "peers", "findings", "rules")
    return all(getattr(left, part) == getattr(right, part) for part in parts)


@pytest.mark.parametrize("relative", REAL)
def test_without_a_fault_a_real_run_reads_the_same(relative: str, tmp_path: Path) -> None:
    run = Spliceable(RecordedRun.read(corpus(relative)))
    spliced = run.splice()
    assert check(spliced) == [] and spliced.times_ns == run.waits.graph.recorded_ns
    spliced.write(tmp_path)
    assert same(diagnosed(tmp_path), diagnosed(corpus(relative)))


@pytest.mark.parametrize("relative", REAL)
def test_a_fault_in_a_real_run_keeps_its_causes_and_all_but_times(relative: str, tmp_path: Path) -> None:
    run, draw = Spliceable(RecordedRun.read(corpus(relative))), random.Random(relative)
    for kind in ACTING:
        rank = draw.choice(sorted(run.run.ranks))
        if run.can(kind, rank):
            spliced = run.plant_share(kind, rank, 0.3)
            assert check(spliced) == [] and spliced.share == pytest.approx(0.3, rel=0.05)
            spliced.write(tmp_path / kind)
            for file in run.run.ranks.values():
                new = json.loads((tmp_path / kind / file.path.name.removesuffix(".gz")).read_text())["traceEvents"]
                assert [timeless(event) for event in new] == [timeless(event) for event in file.events]


def timeless(event: dict) -> dict:
    return {key: value for key, value in event.items() if key not in ("ts", "dur")}


def test_a_delay_real_ranks_wait_for_is_found(tmp_path: Path) -> None:
    run = Spliceable(RecordedRun.read(corpus("kineto-torchrec-4rank/resnet18-2rank")))
    for rank, kind in ((0, PlantKind.SLOW_COMPUTE), (1, PlantKind.HOST_PAUSE)):
        run.plant_share(kind, rank, 0.3).write(tmp_path / kind)
        found = [f for f in diagnosed(tmp_path / kind).findings if f.rule == "straggler-rank"]
        assert [finding.ranks for finding in found] == [[rank]]


@pytest.mark.parametrize(
    ("kind", "fault"),
    [
        (PlantKind.SLOW_COMPUTE, faults.slow_compute(2, 4 * MS)),
        (PlantKind.SLOW_LOADER, faults.slow_shard(2, 4 * MS)),
        (PlantKind.HOST_PAUSE, faults.host_pause(2, 4 * MS)),
    ],
    ids=lambda value: str(getattr(value, "rule", value)),
)
def test_a_planted_fault_costs_what_the_simulator_says_it_costs(kind: PlantKind, fault, tmp_path: Path) -> None:
    run = spliceable(tmp_path / "healthy")
    share = fault.amount_ns / (fault.amount_ns + run.recorded_steps[run.judged[0]])
    spliced = run.plant_share(kind, 2, share)
    assert check(spliced) == []
    spliced.write(tmp_path / "spliced")
    simulate(Scenario(**JOB, faults=(fault,))).write(tmp_path / "simulated")
    costs = []
    for name in ("spliced", "simulated"):
        (found,) = (f for f in diagnosed(tmp_path / name).findings if f.kind == "time")
        assert (found.rule, found.ranks, found.cause) == ("straggler-rank", [2], fault.cause)
        costs.append(found.cost_ns)
    # both lengthen the step by the amount; on top comes the noise of the rank, which the steps share in both
    assert costs[0] == pytest.approx(costs[1], rel=0.15)


def test_slack_hides_a_delay(tmp_path: Path) -> None:
    run = spliceable(tmp_path / "healthy")  # hosts run ahead of their devices by half a step
    hidden = run.splice(Plant(PlantKind.HOST_PAUSE, 1, {run.judged[0]: 1 * MS}))
    assert set(hidden.lengthened_ns.values()) == {0}
    whole = run.splice(Plant(PlantKind.SLOW_COMPUTE, 1, dict.fromkeys(run.recorded_steps, 4 * MS)))
    lengthened = list(whole.lengthened_ns.values())
    assert min(lengthened) > 0 and sum(lengthened) / len(lengthened) == pytest.approx(4 * MS, rel=0.1)


def test_a_clock_that_is_ahead_and_drifts_changes_no_finding(tmp_path: Path) -> None:
    folder = corpus("kineto-torchrec-4rank/resnet18-2rank")
    run = Spliceable(RecordedRun.read(folder))
    run.splice(Plant(PlantKind.CLOCK, 1, clock=Clock(11_560 * MS, 20_000))).write(tmp_path)
    shifted, recorded = diagnosed(tmp_path), diagnosed(folder)
    assert shifted.clock[1].offset_ns - shifted.clock[0].offset_ns == pytest.approx(11_560 * MS, abs=0.1 * MS)
    assert [(f.rule, f.ranks) for f in shifted.findings] == [(f.rule, f.ranks) for f in recorded.findings]
