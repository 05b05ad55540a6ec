from __future__ import annotations

from pathlib import Path

import pytest
from hand_made import MS, STEP, US, Rank, findings, ranks


def zeroing(length: int, operator: str = "aten::zero_", around: str = "Optimizer.zero_grad#AdamW.zero_grad") -> list[Rank]:
    """Ten fills of `length` each, launched inside the range."""

    def body(rank: Rank, _: int) -> None:
        at = rank.begin + 20 * US
        for i in range(10):
            asked = rank.begin + (i + 1) * US
            rank.host(operator, asked, asked + 500)
            rank.kernel(at, at + length, "FillFunctor", asked=asked)
            at += length
        rank.host(around, rank.begin + 500, rank.begin + 12 * US, "user_annotation")
        rank.kernel(at, rank.begin + STEP, asked=rank.begin + 13 * US)

    return ranks(1, body)


def test_filling_gradients_with_zeros_is_priced(tmp_path: Path) -> None:
    (found,) = findings(zeroing(11 * US), "zero-grad", tmp_path)
    assert found.cost_ns == 110 * US and "set_to_none=True" in found.advice


@pytest.mark.parametrize(
    "run",
    [zeroing(9 * US), zeroing(MS // 2, operator="aten::add"), zeroing(MS // 2, around="forward")],
    ids=["below 1 % of the step", "no fills", "not in zero_grad"],
)
def test_short_fills_and_fills_elsewhere_are_silent(run: list[Rank], tmp_path: Path) -> None:
    assert findings(run, "zero-grad", tmp_path) == []
