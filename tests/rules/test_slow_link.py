from __future__ import annotations

from pathlib import Path

import pytest
from hand_made import FIRST, MS, STEP, US, Rank, findings, ranks, skipped


def pairs(usual: int, slow: int, *, hits: frozenset[int] = frozenset(range(12)), world: int = 6) -> list[Rank]:
    """Groups of two; the group of ranks 2 and 3 takes `slow` instead of `usual` in the steps `hits`."""

    def body(rank: Rank, number: int) -> None:
        first = rank.rank // 2 * 2
        took = slow if first == 2 and number in hits else usual
        rank.fill(rank.begin + FIRST, rank.begin + 4 * MS)
        rank.collective(
            rank.begin + 4 * MS, rank.begin + 4 * MS + took, group=f"pair{first}", ranks=(first, first + 1)
        )
        rank.fill(rank.begin + 4 * MS + took + US, rank.begin + STEP)

    return ranks(world, body)


def test_a_group_slower_than_its_sisters_is_named_and_priced(tmp_path: Path) -> None:
    (found,) = findings(pairs(600 * US, 900 * US), "slow-link", tmp_path)
    assert found.ranks == [2, 3] and found.cost_ns == 300 * US
    evidence = {e.label: e.value for e in found.evidence}
    assert evidence["share of the sisters' bandwidth"] == pytest.approx(2 / 3)


def test_bandwidth_above_seven_tenths_of_the_sisters_is_silent(tmp_path: Path) -> None:
    assert findings(pairs(600 * US, 840 * US), "slow-link", tmp_path) == []


def test_an_excess_below_a_hundredth_of_the_step_is_silent(tmp_path: Path) -> None:
    assert findings(pairs(100 * US, 190 * US), "slow-link", tmp_path) == []


def test_a_link_that_is_slow_now_and_then_is_not_named(tmp_path: Path) -> None:
    assert findings(pairs(600 * US, 2 * MS, hits=frozenset({1, 4, 7, 9, 10})), "slow-link", tmp_path) == []


def test_a_single_group_has_no_sister_to_compare_with(tmp_path: Path) -> None:
    assert "\n" not in skipped(pairs(600 * US, 900 * US, world=2), "slow-link", tmp_path)
