from __future__ import annotations

from pathlib import Path

import pytest
from hand_made import FIRST, MS, STEP, US, Rank, findings, ranks, skipped


def tiny(number: int, gap: int, length: int = 5 * US, others: int = 0) -> list[Rank]:
    """`number` kernels of `length`, each after a gap; then the rest of the step in `others` + 1 long kernels."""

    def body(rank: Rank, _: int) -> None:
        at = rank.begin + FIRST
        rank.fill(at, at + 100 * US)
        at += 100 * US
        for _i in range(number):
            rank.fill(at + gap, at + gap + length)
            at += gap + length
        each = (rank.begin + STEP - at) // (others + 1)
        for i in range(others + 1):
            rank.fill(at + i * each + 1, at + (i + 1) * each)

    return ranks(1, body)


def test_gaps_before_tiny_kernels_are_priced(tmp_path: Path) -> None:
    (found,) = findings(tiny(120, 8 * US), "tiny-kernels", tmp_path)
    assert found.cost_ns == 120 * 8 * US and "120 of 122" in found.where


@pytest.mark.parametrize(
    "run",
    [
        tiny(120, 8 * US, length=11 * US),
        tiny(90, 20 * US),
        tiny(120, 8 * US, others=300),
        tiny(120, 500),
    ],
    ids=["not tiny", "few", "below 30 %", "below 1 % of the step"],
)
def test_longer_fewer_and_dense_kernels_are_silent(run: list[Rank], tmp_path: Path) -> None:
    assert findings(run, "tiny-kernels", tmp_path) == []


def test_long_gaps_before_tiny_kernels_have_another_cause(tmp_path: Path) -> None:
    def body(rank: Rank, _: int) -> None:
        for i in range(110):
            rank.fill(rank.begin + FIRST + i * 6 * US, rank.begin + FIRST + i * 6 * US + 5900)
        rank.gap(2 * MS, 5 * MS)

    assert findings(ranks(1, body), "tiny-kernels", tmp_path) == []


def test_without_a_device_the_rule_is_skipped(tmp_path: Path) -> None:
    run = ranks(1, lambda rank, _: rank.host("aten::mm", rank.begin, rank.begin + MS) and None, cpu_only=True)
    assert "ProfilerActivity.CUDA" in skipped(run, "tiny-kernels", tmp_path)


def test_two_kernels_of_five_are_enough(tmp_path: Path) -> None:
    assert len(findings(tiny(120, 8 * US, others=180), "tiny-kernels", tmp_path)) == 1
