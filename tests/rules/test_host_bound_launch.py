from __future__ import annotations

from pathlib import Path

import pytest
from hand_made import FIRST, MS, STEP, US, Rank, findings, ranks, skipped


def starved(length: int) -> list[Rank]:
    return ranks(1, lambda rank, _: rank.gap(4 * MS, length) and None)


def test_a_device_that_waits_for_launches_is_priced(tmp_path: Path) -> None:
    (found,) = findings(starved(1600 * US), "host-bound-launch", tmp_path)
    assert found.cost_ns == 1600 * US + 10 * US + FIRST  # with the latency, and the step's first launch
    assert found.severity == "critical" and found.ranks == []


def test_waiting_below_the_threshold_is_silent(tmp_path: Path) -> None:
    assert findings(starved(1400 * US), "host-bound-launch", tmp_path) == []


def test_queued_kernels_apart_are_no_fault_of_the_host(tmp_path: Path) -> None:
    def body(rank: Rank, _: int) -> None:
        rank.fill(rank.begin + FIRST, rank.begin + 4 * MS)
        rank.fill(rank.begin + 8 * MS, rank.begin + STEP)

    assert findings(ranks(1, body), "host-bound-launch", tmp_path) == []


def test_idle_time_that_the_loader_claims_is_not_the_host_s(tmp_path: Path) -> None:
    def body(rank: Rank, _: int) -> None:
        start, end = rank.gap(4 * MS, 3 * MS)
        rank.host("rankscope.data", start - US, end, "user_annotation")

    assert findings(ranks(1, body), "host-bound-launch", tmp_path) == []


def test_what_a_compilation_claims_is_priced_apart(tmp_path: Path) -> None:
    def body(rank: Rank, _: int) -> None:
        start, end = rank.gap(4 * MS, 3 * MS)
        rank.host("entire_frame_compile (dynamo_timed)", start, end, "user_annotation")

    assert findings(ranks(1, body), "host-bound-launch", tmp_path) == []


def test_without_device_or_launches_the_rule_says_what_to_record(tmp_path: Path) -> None:
    def no_device(rank: Rank, _: int) -> None:
        rank.host("aten::mm", rank.begin, rank.begin + MS)

    def no_launch(rank: Rank, _: int) -> None:
        rank.kernel(rank.begin, rank.begin + MS, launched=False)

    assert "ProfilerActivity.CUDA" in skipped(ranks(1, no_device, cpu_only=True), "host-bound-launch", tmp_path)
    assert "ProfilerActivity.CPU" in skipped(ranks(1, no_launch), "host-bound-launch", tmp_path)


def test_what_the_profiler_s_overhead_claims_is_told_there(tmp_path: Path) -> None:
    def body(rank: Rank, _: int) -> None:
        start, end = rank.gap(4 * MS, 3 * MS)
        rank.host("Activity Buffer Request", start, end, "overhead")

    assert findings(ranks(1, body), "host-bound-launch", tmp_path) == []


def test_gaps_before_tiny_kernels_are_priced_there_if_there_are_enough(tmp_path: Path) -> None:
    def late(number: int) -> list[Rank]:
        def body(rank: Rank, _: int) -> None:
            at = rank.begin + FIRST
            for _i in range(number):
                rank.kernel(at, at + 5 * US, asked=at - 6 * US)
                at += 25 * US
            rank.kernel(at, rank.begin + STEP, asked=at - 6 * US)

        return ranks(1, body)

    assert findings(late(120), "host-bound-launch", tmp_path) == []
    (found,) = findings(late(90), "host-bound-launch", tmp_path)
    assert found.cost_ns == 90 * 20 * US + FIRST


@pytest.mark.parametrize("operator", ["aten::addcdiv_", "aten::copy"])
def test_gaps_inside_a_single_tensor_optimizer_are_priced_there(operator: str, tmp_path: Path) -> None:
    def body(rank: Rank, _: int) -> None:
        at = rank.begin + FIRST
        rank.host("Optimizer.step#AdamW.step", at - 10 * US, at + 4 * MS, "user_annotation")
        for _i in range(12):
            rank.host(operator, at - 8 * US, at - 2 * US)
            rank.kernel(at, at + 100 * US, asked=at - 6 * US)
            at += 300 * US
        rank.kernel(at, rank.begin + STEP, asked=at - 6 * US)

    found = findings(ranks(1, body), "host-bound-launch", tmp_path)
    assert len(found) == (operator == "aten::copy")  # which is none of an optimizer's in-place operators
