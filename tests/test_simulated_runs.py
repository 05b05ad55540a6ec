"""Simulated runs through the whole pipeline, against a truth that the pipeline has no part in."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

import rankscope
from rankscope.analyzers.findings import Diagnosis
from rankscope.analyzers.measured import Row
from rankscope.simulator import Scenario, Simulation, faults, simulate

MS = 1_000_000
SHARDINGS = [{"sharding": "ddp"}, {"sharding": "fsdp"}, {"sharding": "hsdp", "ranks_per_host": 4}]


def diagnosed(simulation: Simulation, folder: Path) -> Diagnosis:
    simulation.write(folder)
    return rankscope.diagnose(folder, cache=False, jobs=1)


def numbered(diagnosis: Diagnosis) -> dict[tuple[int, int], Row]:
    return {(row.rank, row.step): row for row in diagnosis.attribution if isinstance(row.step, int)}


@pytest.mark.parametrize("sharding", SHARDINGS, ids=lambda s: s["sharding"])
def test_windows_waits_and_transfers_are_those_of_the_truth(sharding: dict, tmp_path: Path) -> None:
    simulation = simulate(Scenario(ranks=8, steps=4, layers=4, **sharding, faults=(faults.slow_compute(3, MS),)))
    diagnosis, truth = diagnosed(simulation, tmp_path), simulation.truth
    assert {key: row.window_ns for key, row in numbered(diagnosis).items()} == {
        (window.rank, window.step): window.end_ns - window.begin_ns for window in truth.windows
    }
    wait, transfer, count = defaultdict(int), defaultdict(int), defaultdict(int)
    for meeting in truth.meetings:
        key = tuple(sorted(meeting.arrivals_ns)), meeting.bytes
        count[key] += 1
        transfer[key] += meeting.transfer_ns * len(meeting.arrivals_ns)
        wait[key] += sum(max(meeting.arrivals_ns.values()) - at for at in meeting.arrivals_ns.values())
    found = defaultdict(lambda: (0, 0, 0))
    for traffic in diagnosis.collectives.by_group:
        key = tuple(traffic.ranks), traffic.bytes
        counted = found[key]
        found[key] = counted[0] + traffic.count, counted[1] + traffic.wait_ns, counted[2] + traffic.transfer_ns
    assert found == {key: (count[key], wait[key], transfer[key]) for key in count}
    assert diagnosis.collectives.matched == len(truth.meetings) and diagnosis.collectives.unmatched == 0


def test_clocks_of_hosts_are_found_again(tmp_path: Path) -> None:
    scenario = Scenario(ranks=6, steps=3, layers=4, ranks_per_host=2, clock_offsets_ns=(0, 11_560 * MS, -3 * MS))
    simulation = simulate(scenario)
    diagnosis = diagnosed(simulation, tmp_path)
    assert [fit.offset_ns for fit in diagnosis.clock] == list(simulation.truth.clock_offsets_ns)


def test_a_rank_is_charged_what_it_makes_others_wait_and_no_more(tmp_path: Path) -> None:
    simulation = simulate(Scenario(ranks=8, steps=10, layers=6, faults=(faults.slow_compute(3, 4 * MS),)))
    collectives = diagnosed(simulation, tmp_path).collectives
    assert sum(collectives.caused_ns.values()) == sum(collectives.waited_ns.values())
    assert collectives.caused_ns["3"] > 0.9 * sum(collectives.caused_ns.values())
    assert collectives.alone_ns["3"] == pytest.approx(10 * 4 * MS, rel=0.1)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("sharding", SHARDINGS, ids=lambda s: s["sharding"])
def test_a_healthy_run_is_told_so(sharding: dict, seed: int, tmp_path: Path) -> None:
    diagnosis = diagnosed(simulate(Scenario(ranks=8, steps=10, layers=6, seed=seed, **sharding)), tmp_path)
    assert [finding.message for finding in diagnosis.findings if finding.kind == "time" or finding.ranks] == []
    assert diagnosis.rules.failed == []


def test_a_slow_link_is_told_from_its_sisters(tmp_path: Path) -> None:
    fault = faults.slow_link(20 * MS, "2")
    simulation = simulate(Scenario(ranks=16, steps=8, layers=6, sharding="hsdp", ranks_per_host=4, faults=(fault,)))
    diagnosis = diagnosed(simulation, tmp_path)
    found = [finding for finding in diagnosis.findings if finding.rule == "slow-link"]
    assert len(found) == 1 and found[0].ranks == [4, 5, 6, 7]
