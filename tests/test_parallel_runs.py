"""Every way of parallelising, simulated and analysed: exact waits, no false alarm, the slow rank named alone."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

import rankscope
from rankscope.analyzers.findings import Diagnosis
from rankscope.simulator import Scenario, Simulation, faults, simulate
from rankscope.simulator.model import compute_ns
from rankscope.simulator.programs import schedule

MS = 1_000_000
THIN = {"layers": 1, "activation_bytes": 1_048_576}  # many micro-batches and ranks, few kernels
MODES = {
    "accumulation": {"ranks": 4, "micro_batches": 2},
    "fsdp, two layers ahead": {"ranks": 4, "sharding": "fsdp", "prefetch": 2, "micro_batches": 2},
    "fsdp, not ahead": {"ranks": 4, "sharding": "fsdp", "prefetch": 0, "layer_bytes": 2_097_152},
    "tensor": {"tensor": 8},
    "sequence": {"tensor": 8, "sequence_parallel": True} | THIN,
    "pipeline": {"ranks": 4, "pipeline": 4, "micro_batches": 6} | THIN,
    "expert": {"expert": 8, "layer_bytes": 8_388_608},
    "data x tensor": {"tensor": 2} | THIN,
    "fsdp x sequence": {"tensor": 2, "sharding": "fsdp", "sequence_parallel": True},
    "hsdp x tensor": {"tensor": 2, "sharding": "hsdp", "ranks_per_host": 4},
    "data x pipeline": {"pipeline": 4, "micro_batches": 4} | THIN,
    "pipeline, clipped": {"ranks": 4, "pipeline": 4, "micro_batches": 4, "clip_gradients": True} | THIN,
    "data x pipeline, clipped": {"pipeline": 4, "micro_batches": 4, "clip_gradients": True} | THIN,
    "data x expert": {"expert": 4, "layer_bytes": 8_388_608},
    "tensor x pipeline": {"tensor": 2, "pipeline": 4, "micro_batches": 4} | THIN,
    "data x tensor x pipeline": {"tensor": 2, "pipeline": 2, "micro_batches": 2} | THIN,
    "graphs": {"ranks": 4, "cuda_graphs": True},
    "contention": {"ranks": 4, "contention": 0.2},
    "short run-ahead": {"ranks": 4, "run_ahead": 16},
    "checkpoints and evaluations": {"ranks": 4, "checkpoint_every": 4, "checkpoint_ns": 200_000, "evaluate_every": 5},
}
all_modes = pytest.mark.parametrize("mode", MODES.values(), ids=MODES)


def scenario(mode: dict, **more: object) -> Scenario:
    return Scenario(**{"ranks": 8, "layers": 2, "loader_ns": 200_000} | mode | more)


def diagnosed(simulation: Simulation, folder: Path) -> Diagnosis:
    simulation.write(folder)
    return rankscope.diagnose(folder, cache=False, jobs=1)


@all_modes
def test_windows_waits_and_transfers_are_those_of_the_truth(mode: dict, tmp_path: Path) -> None:
    simulation = simulate(scenario(mode, steps=3, seed=5, faults=(faults.slow_compute(3, MS),)))
    diagnosis, truth = diagnosed(simulation, tmp_path), simulation.truth
    assert {(r.rank, r.step): r.window_ns for r in diagnosis.attribution if isinstance(r.step, int)} == {
        (window.rank, window.step): window.end_ns - window.begin_ns for window in truth.windows
    }
    expected: dict[tuple, list[int]] = defaultdict(lambda: [0, 0, 0])  # count, waits, transfers
    for meeting in truth.meetings:
        counted = expected[tuple(sorted(meeting.arrivals_ns)), meeting.bytes]
        counted[0] += 1
        counted[1] += sum(max(meeting.arrivals_ns.values()) - at for at in meeting.arrivals_ns.values())
        counted[2] += meeting.transfer_ns * len(meeting.arrivals_ns)
    for handover in truth.handovers:
        counted = expected[(handover.source, handover.destination), handover.bytes]
        counted[0] += 1
        counted[1] += handover.dependency_ns
        counted[2] += handover.send_end_ns - handover.sent_ns + handover.end_ns - handover.arrived_ns
    found: dict[tuple, list[int]] = defaultdict(lambda: [0, 0, 0])
    for traffic in diagnosis.collectives.by_group:
        counted = found[tuple(traffic.ranks), traffic.bytes]
        counted[0] += traffic.count
        counted[1] += traffic.wait_ns
        counted[2] += traffic.transfer_ns
    assert found == expected
    assert diagnosis.collectives.matched == len(truth.meetings) + len(truth.handovers) > 0
    assert diagnosis.collectives.unmatched == 0


@all_modes
def test_a_healthy_run_is_told_so(mode: dict, tmp_path: Path) -> None:
    diagnosis = diagnosed(simulate(scenario(mode, steps=11, seed=1)), tmp_path)
    assert [finding.message for finding in diagnosis.findings if finding.kind == "time" or finding.ranks] == []
    assert diagnosis.rules.failed == []


@all_modes
def test_the_slow_rank_is_named_alone(mode: dict, tmp_path: Path) -> None:
    rank, amount = (2 if "ranks" in mode else 5), compute_ns(scenario(mode)) // 6
    simulation = simulate(scenario(mode, steps=11, seed=2, faults=(faults.slow_compute(rank, amount),)))
    findings = [f for f in diagnosed(simulation, tmp_path).findings if f.kind == "time"]
    assert [finding.ranks for finding in findings] == [[rank]], [finding.message for finding in findings]
    # nobody waits for anybody else in a pipeline alone: its heavy stage is named
    expected = "uneven-work" if mode.get("ranks") == mode.get("pipeline", 1) else "straggler-rank"
    assert findings[0].rule == expected


def test_a_receiver_waits_for_its_sender_and_is_not_charged(tmp_path: Path) -> None:
    simulation = simulate(scenario(MODES["pipeline"], steps=3))
    collectives = diagnosed(simulation, tmp_path).collectives
    waiting = sum(traffic.wait_ns for traffic in collectives.by_group)
    assert waiting == sum(handover.dependency_ns for handover in simulation.truth.handovers) > 0
    assert not any(collectives.caused_ns.values()) and not any(collectives.waited_ns.values())


def test_a_pipeline_runs_each_micro_batch_once_and_holds_no_more_than_its_stages() -> None:
    job = Scenario(ranks=4, pipeline=4, micro_batches=6)
    for rank in range(4):
        passes = list(schedule(job, rank))
        assert [p.micro_batch for p in passes if p.backward] == [p.micro_batch for p in passes if not p.backward]
        assert [p.micro_batch for p in passes if p.last] == [5]
        held = [sum(1 if not p.backward else -1 for p in passes[: i + 1]) for i in range(len(passes))]
        assert max(held) == 4 - rank and held[-1] == 0


def test_uneven_experts_are_found(tmp_path: Path) -> None:
    simulation = simulate(
        scenario({"expert": 8, "expert_imbalance": 1.0, "near_bytes_per_s": 20_000_000_000}, steps=12)
    )
    found = {finding.rule: finding.ranks for finding in diagnosed(simulation, tmp_path).findings}
    assert found["uneven-work"] == [0]
    first = simulation.truth.meetings[0]
    assert (first.collective, first.bytes) == ("all_to_allv", 2 * simulation.scenario.activation_bytes)


def test_transfers_slow_the_compute_they_overlap() -> None:
    long = {"layers": 4, "bus_bytes_per_s": 20_000_000_000, "kernel_noise": 0.0}
    alone, crowded = (
        sum(
            work.end_ns - work.start_ns
            for work in simulate(Scenario(ranks=2, steps=2, contention=contention, **long)).traces[0].recorded.works
            if work.arrival is None
        )
        for contention in (0.0, 0.5)
    )
    assert 1.01 * alone < crowded < 1.5 * alone


def test_one_graph_launch_runs_many_kernels() -> None:
    recorded = simulate(Scenario(ranks=2, steps=2, layers=2, cuda_graphs=True)).traces[0].recorded
    graphs = [call.correlation for call in recorded.calls if call.name == "cudaGraphLaunch"]
    kernels = [work.correlation for work in recorded.works if work.correlation in graphs]
    assert len(graphs) == 2 * 2 * 4 and len(kernels) == 2 * 2 * 9


@pytest.mark.parametrize(
    "mode", [{"tensor": 3}, {"pipeline": 16}, {"expert": 3}, {"prefetch": -1}, {"micro_batches": 0}]
)
def test_what_cannot_be_divided_is_refused(mode: dict) -> None:
    with pytest.raises(ValueError, match=r"at least|must divide"):
        Scenario(ranks=8, **mode)
