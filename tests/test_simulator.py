"""Other tests believe the simulator; here its files are held against its truth, and both against what is possible."""

from __future__ import annotations

import json
from collections import defaultdict
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import pytest

from rankscope.simulator import Fault, Scenario, Simulation, demo, faults, simulate
from rankscope.simulator.kineto import ORIGIN_NS

MS = 1_000_000
SMALL = {"ranks": 4, "steps": 4, "layers": 4}
ONE_OF_EACH = [
    faults.slow_compute(2, 2 * MS),
    faults.slow_shard(2, 2 * MS),
    faults.host_pause(2, 2 * MS),
    faults.slow_loader(2 * MS),
    faults.sync_points(2 * MS),
    faults.checkpoint(20 * MS, every=2),
    faults.pageable_copy(2 * MS),
    faults.device_malloc(2 * MS),
    faults.slow_link(20 * MS),
    faults.slow_python(5 * MS),
    faults.late_communication(4 * MS),
    faults.indexing_loop(2 * MS),
    faults.zero_grad(2 * MS),
    faults.single_tensor_optimizer(2 * MS),
    faults.full_fp32(4 * MS),
    faults.late_compile(20 * MS, every=2),
    faults.late_host(2 * MS),
    faults.small_messages(2 * MS),
    faults.cpu_backend(10 * MS),
    faults.tiny_kernels(2 * MS),
    faults.unaligned_matmul(2 * MS),
    faults.profiler(2 * MS),
    faults.full_memory(10**9),
]
ELSEWHERE = (
    "slow_link",
    "checkpoint",
    "late_compile",
    "late_host",
    "cpu_backend",
    "full_memory",
)  # not so in each step
IN_EVERY_STEP = [fault for fault in ONE_OF_EACH if fault.kind not in ELSEWHERE]
SHARDINGS = [{"sharding": "ddp"}, {"sharding": "fsdp"}, {"sharding": "hsdp", "ranks_per_host": 2}]


def ns(micros: str) -> int:
    value = Fraction(micros) * 1000
    assert value.denominator == 1
    return int(value)


def events(simulation: Simulation, rank: int) -> list[dict]:
    """The file's events, with exact nanoseconds of common time."""
    text = simulation.traces[rank].text()
    parsed = json.loads(text, parse_float=str)["traceEvents"]
    shift = ORIGIN_NS + simulation.truth.clock_offsets_ns[rank]
    for event in parsed:
        event["ts"], event["dur"] = ns(event["ts"]) - shift, ns(event.get("dur", "0"))
    return parsed


def kernels(simulation: Simulation, rank: int) -> list[dict]:
    return [event for event in events(simulation, rank) if event.get("cat") == "kernel"]


def step_ns(simulation: Simulation) -> float:
    """Mean length of the steps between the first and the last, over all ranks."""
    inner = [w for w in simulation.truth.windows if w.step in simulation.truth.steps[1:-1]]
    return sum(w.end_ns - w.begin_ns for w in inner) / len(inner)


@pytest.mark.parametrize("sharding", SHARDINGS, ids=lambda s: s["sharding"])
def test_files_hold_the_meetings_of_the_truth_to_the_nanosecond(sharding: dict) -> None:
    simulation = simulate(Scenario(**SMALL, **sharding, clock_offsets_ns=(0, 1_234_567)))
    found = defaultdict(dict)
    for rank in range(4):
        for event in kernels(simulation, rank):
            if "Seq" in event["args"]:
                key = event["args"]["Process Group Name"], event["args"]["Seq"]
                found[key][rank] = event["ts"], event["ts"] + event["dur"]
    assert len(found) == len(simulation.truth.meetings) > 0
    for meeting in simulation.truth.meetings:
        there = found[meeting.group, meeting.seq]
        assert {rank: start for rank, (start, _) in there.items()} == meeting.arrivals_ns
        assert {end for _, end in there.values()} == {meeting.end_ns}
        assert meeting.transfer_ns > 0


@pytest.mark.parametrize("fault", ONE_OF_EACH, ids=lambda f: f"{f.kind}-{f.cause}")
def test_no_stream_runs_two_things_at_once_and_nothing_runs_before_its_launch(fault: Fault) -> None:
    simulation = simulate(Scenario(**SMALL, faults=(fault,)))
    for rank in range(4):
        found = events(simulation, rank)
        launched = {e["args"]["correlation"]: e["ts"] for e in found if e.get("cat") == "cuda_runtime"}
        streams = defaultdict(list)
        for event in found:
            if event.get("cat") in ("kernel", "gpu_memcpy"):
                assert event["ts"] > launched[event["args"]["correlation"]]
                streams[event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
        for work in streams.values():
            work.sort()
            assert all(end <= start for (_, end), (start, _) in pairwise(work))


@pytest.mark.parametrize("sharding", SHARDINGS, ids=lambda s: s["sharding"])
def test_host_spans_of_one_thread_nest(sharding: dict) -> None:
    simulation = simulate(Scenario(**SMALL, **sharding))
    threads = defaultdict(list)
    for event in events(simulation, 1):
        if event.get("cat") in ("cpu_op", "user_annotation", "cuda_runtime", "python_function"):
            threads[event["tid"]].append((event["ts"], -event["dur"]))
    assert len(threads) == 2  # training and backward
    for spans in threads.values():
        open_ends: list[int] = []
        for start, negative in sorted(spans):
            while open_ends and open_ends[-1] <= start:
                open_ends.pop()
            assert not open_ends or start - negative <= open_ends[-1]
            open_ends.append(start - negative)


def test_ids_are_unique_and_every_arrow_has_both_ends() -> None:
    found = events(simulate(Scenario(**SMALL)), 0)
    calls = [e["args"]["correlation"] for e in found if e.get("cat") == "cuda_runtime"]
    spans = [e["args"]["Ev Idx"] for e in found if "Ev Idx" in e.get("args", {})]
    assert len(calls) == len(set(calls)) and len(spans) == len(set(spans))
    begun, ended = ([e["id"] for e in found if e["ph"] == phase] for phase in "sf")
    work = [e["args"]["correlation"] for e in found if e.get("cat") in ("kernel", "gpu_memcpy")]
    assert sorted(begun) == sorted(ended) == sorted(work)


@pytest.mark.parametrize("sharding", SHARDINGS, ids=lambda s: s["sharding"])
def test_windows_follow_from_the_file_and_touch_each_other(sharding: dict) -> None:
    simulation = simulate(Scenario(**SMALL, **sharding))
    for rank in range(4):
        found = events(simulation, rank)
        launched = {e["args"]["correlation"]: e["ts"] for e in found if e.get("cat") == "cuda_runtime"}
        marks = {
            e["name"]: e for e in found if e.get("cat") == "user_annotation" and e["name"].startswith("ProfilerStep#")
        }
        compute = [e for e in found if e.get("cat") == "kernel" and "Seq" not in e["args"]]
        windows = [w for w in simulation.truth.windows if w.rank == rank]
        assert [w.step for w in windows] == list(simulation.truth.steps)
        for window, following in zip(windows, [*windows[1:], None], strict=True):
            begin = marks[f"ProfilerStep#{window.step}"]["ts"]
            before = [e["ts"] + e["dur"] for e in compute if launched[e["args"]["correlation"]] < begin]
            assert window.begin_ns == max([begin, *before])
            assert following is None or window.end_ns == following.begin_ns


def test_same_seed_same_files_and_another_seed_others() -> None:
    texts = [[t.text() for t in simulate(Scenario(**SMALL, seed=seed)).traces] for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]


@pytest.mark.parametrize("fault", IN_EVERY_STEP, ids=lambda f: f"{f.kind}-{f.cause}")
def test_a_fault_lengthens_the_step_by_what_was_planted(fault: Fault) -> None:
    healthy, faulty = (simulate(Scenario(**SMALL, faults=planted)) for planted in ((), (fault,)))
    added = step_ns(faulty) - step_ns(healthy)
    # a host that lost its lead takes some launches to regain it: the more often, the longer; tiny kernels take time too
    refill = {"sync_points": 1.0, "tiny_kernels": 1.0, "slow_python": 0.5, "single_tensor": 0.5}
    assert 0.8 * fault.amount_ns < added < (1 + refill.get(fault.kind, 0.2)) * fault.amount_ns


def test_a_checkpoint_lengthens_only_the_steps_that_save() -> None:
    simulation = simulate(Scenario(**SMALL, faults=(faults.checkpoint(50 * MS, every=2),)))
    lengths = {w.step: w.end_ns - w.begin_ns for w in simulation.truth.windows if w.rank == 0}
    saving = simulation.truth.planted[0].steps
    assert saving and all((lengths[step] > 50 * MS) == (step in saving) for step in lengths)


def test_a_slow_link_slows_its_own_group_and_no_other() -> None:
    scenario = {**SMALL, "sharding": "hsdp", "ranks_per_host": 2}
    before, after = (
        simulate(Scenario(**scenario, faults=planted)) for planted in ((), (faults.slow_link(6 * MS, "2"),))
    )
    slowed = {
        m.group
        for m, n in zip(before.truth.meetings, after.truth.meetings, strict=True)
        if m.transfer_ns < n.transfer_ns
    }
    assert slowed == {"2"} and {"1", "2"} < {m.group for m in before.truth.meetings}


@pytest.mark.parametrize("sharding", SHARDINGS, ids=lambda s: s["sharding"])
def test_in_a_healthy_run_no_rank_is_last_persistently(sharding: dict) -> None:
    simulation = simulate(Scenario(ranks=8, steps=8, **{"ranks_per_host": 4, **sharding}))
    leaders = set()
    for step in simulation.truth.steps:
        behind = dict.fromkeys(range(8), 0)
        for meeting in simulation.truth.meetings:
            if meeting.step == step:
                *_, second, last = sorted(meeting.arrivals_ns, key=meeting.arrivals_ns.__getitem__)
                gap = meeting.arrivals_ns[last] - meeting.arrivals_ns[second]
                assert gap < 0.02 * step_ns(simulation)  # one kernel of the slowest hundredth
                behind[last] += gap
        leaders.add(max(behind, key=behind.__getitem__))
    assert len(leaders) > 2


def test_without_communication_no_collective_is_written() -> None:
    simulation = simulate(Scenario(**SMALL, faults=(faults.no_communication(),)))
    assert not simulation.truth.meetings
    assert not any("nccl" in event["name"] for event in kernels(simulation, 0))


def test_hosts_have_clocks_of_their_own() -> None:
    simulation = simulate(Scenario(**SMALL, ranks_per_host=2, clock_offsets_ns=(0, 5 * MS)))
    heads = [json.loads(trace.text(), parse_float=str) for trace in simulation.traces]
    assert [head["host_name"] for head in heads] == ["node0", "node0", "node1", "node1"]
    assert len({head["baseTimeNanoseconds"] for head in heads}) == 1
    ends = [
        max(ns(e["ts"]) + ns(e["dur"]) for e in h["traceEvents"] if "Seq" in e.get("args", {}) and e["cat"] == "kernel")
        for h in heads
    ]
    assert [end - ends[0] for end in ends] == [0, 0, 5 * MS, 5 * MS]


def test_a_clock_that_drifts_stretches_every_time_and_length_of_its_host() -> None:
    plain = simulate(Scenario(**SMALL, ranks_per_host=2))
    drifting = simulate(Scenario(**SMALL, ranks_per_host=2, clock_drifts_ppb=(0, -100_000)))
    assert drifting.truth.clock_drifts_ppb == (0, 0, -100_000, -100_000)
    assert drifting.traces[1].text() == plain.traces[1].text()
    for common, own in zip(events(plain, 2), events(drifting, 2), strict=True):
        end = common["ts"] + common["dur"]
        assert own["ts"] == common["ts"] - -(-common["ts"] // 10_000)
        assert own["ts"] + own["dur"] == (end - -(-end // 10_000) if common["dur"] else own["ts"])


def test_ranks_leave_a_collective_as_far_apart_as_is_planted() -> None:
    simulation = simulate(Scenario(**SMALL, end_jitter_ns=40_000))
    common = {(m.group, m.seq): m.end_ns for m in simulation.truth.meetings}
    early = []
    for rank in range(4):
        for event in kernels(simulation, rank):
            if "Seq" in event["args"]:
                end = common[event["args"]["Process Group Name"], event["args"]["Seq"]]
                early.append(event["ts"] + event["dur"] - end)
    assert -40_000 <= min(early) < -30_000 and 30_000 < max(early) <= 40_000
    assert (
        abs(sum(early) / len(early)) < 3 * 40_000 / (3 * len(early)) ** 0.5
    )  # three standard errors of a uniform mean


def test_the_demo_writes_eight_ranks_and_says_what_is_planted(tmp_path: Path) -> None:
    truth = demo.write(tmp_path / "demo")
    assert sorted(path.name for path in (tmp_path / "demo").iterdir()) == [f"rank-{rank}.json" for rank in range(8)]
    assert [(p.rule, p.ranks, p.cause) for p in truth.planted] == [("straggler-rank", (5,), "compute")]
    assert json.loads(truth.to_json())["planted"][0]["injected_ns"] == truth.planted[0].injected_ns


@pytest.mark.parametrize("name", demo.plantable())
def test_every_fault_can_be_shown_as_a_demo(name: str) -> None:
    (fault,) = demo.scenario(name).faults
    assert fault.rule == demo.plantable()[name]().rule
