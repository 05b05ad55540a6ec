from __future__ import annotations

from pathlib import Path

import pytest
from hand_made import MS, STEP, US, Rank, findings, ranks, skipped


def optimizing(updates: int, gap: int, operator: str = "aten::addcdiv_", name: str = "Adam") -> list[Rank]:
    """`updates` operators inside the optimizer, each with a kernel of 5 us after a gap."""

    def body(rank: Rank, _: int) -> None:
        rank.fill(rank.begin + 20 * US, rank.begin + 5 * MS)
        begin, at = rank.begin + 4 * MS, rank.begin + 5 * MS
        for i in range(updates):
            asked = begin + (i + 1) * 10 * US
            rank.host(operator, asked - US, asked + 2 * US)
            rank.kernel(at + gap, at + gap + 5 * US, asked=asked)
            at += gap + 5 * US
        end = begin + (updates + 2) * 10 * US
        rank.host(f"Optimizer.step#{name}.step", begin, end, "user_annotation")
        rank.kernel(at, rank.begin + STEP, asked=end + US)

    return ranks(1, body)


def test_gaps_inside_a_single_tensor_optimizer_are_priced(tmp_path: Path) -> None:
    (found,) = findings(optimizing(31, 10 * US), "single-tensor-optimizer", tmp_path)
    assert found.cost_ns == 30 * 10 * US and "foreach=True" in found.advice  # not the gap before its first kernel


@pytest.mark.parametrize(
    "run",
    [
        optimizing(9, 100 * US),
        optimizing(31, 10 * US, operator="aten::_foreach_addcdiv_"),
        optimizing(31, 10 * US, name="Shampoo"),
        optimizing(31, 3 * US),
    ],
    ids=["few updates", "foreach", "an optimizer of others", "below 1 % of the step"],
)
def test_few_updates_and_other_optimizers_are_silent(run: list[Rank], tmp_path: Path) -> None:
    assert findings(run, "single-tensor-optimizer", tmp_path) == []


def test_foreach_that_falls_back_to_single_tensors_counts_as_foreach(tmp_path: Path) -> None:
    run = optimizing(31, 10 * US)
    for rank in run:
        for number in range(12):
            begin = number * STEP + 4 * MS
            rank.host("aten::_foreach_addcdiv_", begin + US, begin + 300 * US)
    assert findings(run, "single-tensor-optimizer", tmp_path) == []


def test_without_a_device_the_rule_is_skipped(tmp_path: Path) -> None:
    run = ranks(1, lambda rank, _: rank.host("aten::mm", rank.begin, rank.begin + MS) and None, cpu_only=True)
    assert "ProfilerActivity.CUDA" in skipped(run, "single-tensor-optimizer", tmp_path)


def test_a_dozen_updates_are_an_optimizer(tmp_path: Path) -> None:
    assert len(findings(optimizing(12, 50 * US), "single-tensor-optimizer", tmp_path)) == 1
