from __future__ import annotations

from pathlib import Path

from hand_made import MS, STEP, US, Rank, findings, ranks, skipped


def allocating(length: int) -> list[Rank]:
    def body(rank: Rank, _: int) -> None:
        start, end = rank.gap(4 * MS, length)
        rank.call("cudaMalloc", start, end)

    return ranks(1, body)


def test_a_device_that_waits_for_the_driver_s_allocator_is_priced(tmp_path: Path) -> None:
    (found,) = findings(allocating(150 * US), "allocator-retries", tmp_path)
    assert found.cost_ns == 150 * US and "cudaMalloc" in found.where
    assert {e.label: e.value for e in found.evidence}["allocator calls a step"] == 1


def test_allocator_time_below_a_hundredth_is_silent(tmp_path: Path) -> None:
    assert findings(allocating(90 * US), "allocator-retries", tmp_path) == []


def test_allocation_in_the_first_step_alone_is_warm_up(tmp_path: Path) -> None:
    def body(rank: Rank, number: int) -> None:
        start, end = rank.gap(4 * MS, 2 * MS if number == 0 else US)
        if number == 0:
            rank.call("cudaMalloc", start, end)

    assert findings(ranks(1, body), "allocator-retries", tmp_path) == []


def test_allocation_behind_a_busy_device_is_silent(tmp_path: Path) -> None:
    def body(rank: Rank, _: int) -> None:
        rank.fill(rank.begin + 20 * US, rank.begin + STEP)
        rank.call("cudaMalloc", rank.begin + MS, rank.begin + 3 * MS)

    assert findings(ranks(1, body), "allocator-retries", tmp_path) == []


def test_without_a_device_the_rule_is_skipped(tmp_path: Path) -> None:
    def body(rank: Rank, _: int) -> None:
        rank.host("aten::mm", rank.begin, rank.begin + MS)

    assert "ProfilerActivity.CUDA" in skipped(ranks(1, body, cpu_only=True), "allocator-retries", tmp_path)
