from __future__ import annotations

from pathlib import Path

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
