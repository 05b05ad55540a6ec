from __future__ import annotations

from pathlib import Path

import pytest
from hand_made import FIRST, MS, STEP, US, Rank, findings, ranks, skipped


def distorted(length: int, name: str = "Activity Buffer Request", busy: bool = False) -> list[Rank]:
    def body(rank: Rank, _: int) -> None:
        start = rank.begin + 4 * MS
        if busy:
            rank.fill(rank.begin + FIRST, rank.begin + STEP)
        else:
            rank.gap(4 * MS, length)
        rank.host(name, start, start + length, "overhead")

    return ranks(1, body)


def test_a_step_that_the_profiler_makes_longer_is_said_without_a_price(tmp_path: Path) -> None:
    (found,) = findings(distorted(550 * US), "profiler-distortion", tmp_path)
    assert found.kind == "validity" and found.cost_ns is None and "5.50 %" in found.message


@pytest.mark.parametrize("run", [distorted(490 * US), distorted(2 * MS, busy=True)], ids=["short", "hidden"])
def test_overhead_that_costs_the_device_little_is_silent(run: list[Rank], tmp_path: Path) -> None:
    assert findings(run, "profiler-distortion", tmp_path) == []


@pytest.mark.parametrize("run", [distorted(MS, "Lazy Function Loading"), ranks(1, lambda rank, _: rank.fill(20, 30))])
def test_without_overhead_of_the_profiler_the_rule_abstains(run: list[Rank], tmp_path: Path) -> None:
    assert "torch.profiler.profile" in skipped(run, "profiler-distortion", tmp_path)
