"""Who is charged for whose waiting, in runs made by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from contract.layout import text
from contract.writer import Rank
from runs import analysed, written

from rankscope.analyzers.analysis import Analysis

K = 1_000


def meeting(come: list[Rank], kind: str, arrivals: list[int], end: int, seq: int, **options: object) -> None:
    for rank, at in zip(come, arrivals, strict=True):
        rank.collective(kind, at - 2_000, at, max(at, end), seq, **options)


def charged(ranks: list[Rank], folder: Path) -> Analysis:
    last = max(e["ts"] + e.get("dur", 0) for rank in ranks for e in rank.events)
    for rank in ranks:
        rank.step(1, 0, last)
    return analysed(written(folder, map(text, ranks)))


def totals(analysis: Analysis) -> tuple[list[int], list[int]]:
    return analysis.waits.waited.sum(axis=1).tolist(), analysis.waits.caused.sum(axis=1).tolist()


def test_ranks_that_come_together_are_last_together(tmp_path: Path) -> None:
    ranks = [Rank(n, 3) for n in range(3)]
    meeting(ranks, "allreduce", [10 * K, 40 * K, 40 * K], 50 * K, 1)
    found = charged(ranks, tmp_path)
    assert totals(found) == ([30 * K, 0, 0], [0, 15 * K, 15 * K])
    assert found.waits.last_arrivals.tolist() == [0, 0, 0]
    assert found.waits.alone.sum(axis=1).tolist() == [0, 0, 0]


def test_a_rank_that_left_before_the_last_came_waited_only_as_long_as_it_was_there(tmp_path: Path) -> None:
    ranks = [Rank(n, 2) for n in range(2)]
    ranks[0].collective("allreduce", 8 * K, 10 * K, 25 * K, 1)
    ranks[1].collective("allreduce", 8 * K, 40 * K, 50 * K, 1)
    assert totals(charged(ranks, tmp_path)) == ([15 * K, 0], [0, 15 * K])


def test_a_root_of_a_reduce_waits_for_its_leaves_and_they_for_nobody(tmp_path: Path) -> None:
    ranks = [Rank(n, 3) for n in range(3)]
    meeting(ranks, "reduce", [20 * K, 10 * K, 50 * K], 60 * K, 1, root=0)
    assert totals(charged(ranks, tmp_path)) == ([30 * K, 0, 0], [0, 0, 30 * K])


@pytest.mark.parametrize("root", [1, 2])
def test_a_root_of_a_broadcast_is_charged_and_never_last(root: int, tmp_path: Path) -> None:
    ranks = [Rank(n, 3) for n in range(3)]
    arrivals = [10 * K, 10 * K, 10 * K]
    arrivals[root] = 30 * K
    meeting(ranks, "broadcast", arrivals, 40 * K, 1, root=root)
    found = charged(ranks, tmp_path)
    waited = [0 if rank == root else 20 * K for rank in range(3)]
    assert totals(found) == (waited, [40 * K if rank == root else 0 for rank in range(3)])
    assert found.waits.last_arrivals.tolist() == [0, 0, 0]


def test_a_rank_that_came_after_the_root_has_nothing_left_to_inherit(tmp_path: Path) -> None:
    ranks = [Rank(n, 3) for n in range(3)]
    meeting(ranks[1:], "allreduce", [10 * K, 40 * K], 40 * K, 1, ranks=[1, 2], group="1")  # 1 waits 30 for 2
    meeting(ranks, "broadcast", [41 * K, 45 * K, 45 * K], 46 * K, 1, root=0)
    meeting(ranks, "allreduce", [50 * K, 70 * K, 50 * K], 70 * K, 2)  # 1 is late by itself
    assert totals(charged(ranks, tmp_path)) == ([20 * K, 30 * K, 20 * K], [0, 40 * K, 30 * K])


def test_blame_is_passed_through_two_groups_to_the_one_slow_rank(tmp_path: Path) -> None:
    ranks = [Rank(n, 4) for n in range(4)]
    meeting(ranks[:2], "allreduce", [110 * K, 10 * K], 120 * K, 1, ranks=[0, 1], group="1")  # 1 waits for 0
    meeting(ranks[1:3], "allreduce", [125 * K, 25 * K], 130 * K, 1, ranks=[1, 2], group="2")  # 2 waits for 1
    meeting(ranks[2:], "allreduce", [135 * K, 35 * K], 140 * K, 1, ranks=[2, 3], group="3")  # 3 waits for 2
    assert totals(charged(ranks, tmp_path)) == ([0, 100 * K, 100 * K, 100 * K], [300 * K, 0, 0, 0])


def test_waiting_that_computation_hides_is_published_and_not_charged(tmp_path: Path) -> None:
    ranks = [Rank(n, 2) for n in range(2)]
    meeting(ranks, "allreduce", [10 * K, 50 * K], 60 * K, 1)
    ranks[0].launch(5 * K, 20 * K, 30 * K)
    found = charged(ranks, tmp_path)
    assert totals(found) == ([30 * K, 0], [0, 30 * K])
    assert [lane[0].hidden_wait_ns for lane in found.lanes] == [10 * K, 0]


def test_a_wait_below_what_the_clocks_can_tell_is_none(tmp_path: Path) -> None:
    ranks = [Rank(0, 2, "a"), Rank(1, 2, "b", shift=7_000_000)]
    for seq, (late, jitter) in enumerate([(1_000, 3_000), (1_000, -3_000), (40_000, 0), (0, 3_000)], 1):
        at = seq * 100 * K
        ranks[0].collective("allreduce", at - 2_000, at, at + 60 * K, seq)
        ranks[1].collective("allreduce", at - 2_000, at + late, at + 60 * K + jitter, seq)
    found = charged(ranks, tmp_path)
    residual = found.matches.clocks.residual_ns([0, 1])
    assert 3_000 <= residual < 40_000
    waited = found.waits.waited.sum(axis=1)
    assert waited[0] == pytest.approx(40_000, abs=residual) and waited[1] == 0
