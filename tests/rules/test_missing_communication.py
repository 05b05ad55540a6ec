from __future__ import annotations

from pathlib import Path

from hand_made import FIRST, MS, STEP, Rank, findings, ranks


def busy(rank: Rank, _: int) -> None:
    rank.fill(rank.begin + FIRST, rank.begin + STEP)


def test_ranks_that_never_communicate_are_reported_without_a_price(tmp_path: Path) -> None:
    (found,) = findings(ranks(2, busy), "missing-communication", tmp_path)
    assert found.kind == "validity" and found.cost_ns is None and found.ranks == []


def test_one_rank_of_several_by_its_world_size_counts_as_several(tmp_path: Path) -> None:
    assert len(findings(ranks(2, busy)[:1], "missing-communication", tmp_path)) == 1


def test_a_run_of_one_rank_has_nobody_to_talk_to(tmp_path: Path) -> None:
    assert findings(ranks(1, busy), "missing-communication", tmp_path) == []


def test_a_single_collective_is_communication(tmp_path: Path) -> None:
    def body(rank: Rank, number: int) -> None:
        busy(rank, number)
        if number == 3:
            rank.collective(rank.begin + MS, rank.begin + 2 * MS)

    assert findings(ranks(2, body), "missing-communication", tmp_path) == []
