"""Which collectives of different ranks are one."""

from __future__ import annotations

from pathlib import Path

import pytest
from contract.layout import text
from contract.writer import Rank
from runs import analysed, written

from rankscope.analyzers.across_ranks.collectives import Matches
from rankscope.analyzers.one_rank.collective_records import collective_word, members
from rankscope.analyzers.trace.model import ProcessGroup


def matched(ranks: list[Rank], folder: Path) -> Matches:
    for rank in ranks:
        rank.op("aten::empty", 0, 1_000)
    return analysed(written(folder, map(text, ranks))).matches


def starts(found: Matches) -> list[list[int]]:
    """Starts after the first collective, by collective."""
    first = int(found.pool.start.min())
    return [(found.pool.start[match.records] - first).tolist() for match in found.found]


def pair() -> list[Rank]:
    return [Rank(0, 2), Rank(1, 2)]


def test_groups_of_equal_members_stay_apart_and_pair_by_their_collectives(tmp_path: Path) -> None:
    a, b = pair()
    for rank, order in ((a, "xy"), (b, "yx")):
        for position, which in enumerate(order):
            at = 10_000 + position * 20_000
            kind, size = ("allreduce", 1_000) if which == "x" else ("_allgather_base", 9_000)
            rank.collective(kind, at, at, at + 5_000, 1, [0, 1], f"{which}{rank.rank}", (size, size))
    found = matched([a, b], tmp_path)
    assert found.unmatched == 0
    assert sorted(starts(found)) == [[0, 20_000], [20_000, 0]]


def test_groups_of_equal_members_pair_by_order_of_first_use(tmp_path: Path) -> None:
    a, b = pair()
    for rank, names in ((a, ("1", "2")), (b, ("7", "4"))):
        for position, name in enumerate(names):
            for seq in (1, 2):
                at = 10_000 + position * 10_000 + seq * 30_000
                rank.collective("allreduce", at, at, at + 5_000, seq, [0, 1], name)
    found = matched([a, b], tmp_path)
    assert len(found.found) == 4 and found.unmatched == 0
    assert all(one == other for one, other in starts(found))


def test_a_seq_that_repeats_is_matched_by_occurrence(tmp_path: Path) -> None:
    a, b = pair()
    for rank, late in ((a, 0), (b, 3_000)):
        for n in range(3):
            at = 10_000 + 20_000 * n + late
            rank.collective("_allgather_base", at, at, at + 9_000, 5, elements=(10, 20))
    assert starts(matched([a, b], tmp_path)) == [[0, 3_000], [20_000, 23_000], [40_000, 43_000]]


def test_a_seq_that_no_other_rank_has_stays_unmatched(tmp_path: Path) -> None:
    a, b = pair()
    for rank, seqs in ((a, (1, 2)), (b, (2, 3))):
        for seq in seqs:
            at = 10_000 * seq
            rank.collective("allreduce", at, at, at + 5_000, seq)
    found = matched([a, b], tmp_path)
    assert starts(found) == [[10_000, 10_000]] and found.unmatched == 2


def test_lists_of_ranks_cut_short_are_read_from_the_files_groups() -> None:
    listed = [ProcessGroup("0", "default_pg", "nccl", tuple(range(512)))]
    assert members("[0, 1, 2, ..., 511]", "0", listed) == tuple(range(512))
    assert members("", "0", listed) == tuple(range(512))
    assert members("[3, 7]", "0", listed) == (3, 7)
    assert members("[0, 1, ..., 511]", "9", listed) == ()


def test_a_group_of_a_hundred_thousand_ranks_is_matched_and_named_in_a_few_words(tmp_path: Path) -> None:
    everyone = list(range(100_000))
    ranks = [Rank(n, 100_000) for n in range(2)]
    for rank in ranks:
        rank.collective("allreduce", 10_000, 10_000, 15_000, 1, everyone)
    found = matched(ranks, tmp_path)
    assert [len(match.records) for match in found.found] == [2]
    assert [group.label for group in found.pool.groups] == ["ranks 0-99999"]


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("allreduce", "all_reduce"),
        ("_allgather_base", "all_gather"),
        ("all_gather_into_tensor_coalesced", "all_gather"),
        ("_reduce_scatter_base", "reduce_scatter"),
        ("all_to_allv", "all_to_all"),
        ("c10d::broadcast_", "broadcast"),
        ("gloo:all_reduce", "all_reduce"),
        ("ncclDevKernel_ReduceScatter_Sum_f32_RING_LL", "reduce_scatter"),
        ("ncclKernel_AllReduce_RING_LL_Sum_float", "all_reduce"),
    ],
)
def test_one_word_for_a_collective_whatever_wrote_it(name: str, word: str) -> None:
    assert collective_word(name) == word
