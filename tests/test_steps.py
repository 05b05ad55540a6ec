"""Windows of steps: the host marks, the device lags."""

from __future__ import annotations

from pathlib import Path

import pytest
from contract.layout import text
from contract.writer import Rank
from runs import analysed, written

Window = tuple[object, int, bool]


def windows(rank: Rank, folder: Path) -> list[Window]:
    """Label, length and whether partial, in the report's order."""
    return [(row.step, row.window_ns, row.partial) for row in analysed(written(folder, [text(rank)])).rows]


def test_a_step_without_compute_kernels_has_a_window_of_nothing(tmp_path: Path) -> None:
    rank = Rank()
    for n, (start, end) in enumerate(((0, 10_000), (10_000, 20_000), (20_000, 30_000)), 1):
        rank.step(n, start, end)
    rank.launch(5_000, 9_000, 60_000)
    found = windows(rank, tmp_path)
    assert [(label, length) for label, length, _ in found] == [(None, 60_000), (1, 60_000), (2, 0), (3, 0)]


def test_a_launch_at_the_mark_belongs_to_the_step_that_begins(tmp_path: Path) -> None:
    rank = Rank()
    rank.step(1, 0, 100_000)
    rank.launch(10_000, 20_000, 30_000)
    rank.step(2, 100_000, 200_000)
    rank.launch(100_000, 150_000, 250_000)
    assert [(label, length) for label, length, _ in windows(rank, tmp_path)] == [
        (None, 250_000), (1, 100_000), (2, 150_000),
    ]  # fmt: skip


def test_what_lies_outside_the_steps_has_rows_of_its_own(tmp_path: Path) -> None:
    rank = Rank()
    rank.op("aten::empty", 0, 1_000)
    rank.step(7, 40_000, 100_000)
    rank.launch(50_000, 60_000, 70_000)
    rank.op("aten::detach", 120_000, 130_000)
    assert [(label, length) for label, length, _ in windows(rank, tmp_path)] == [
        (None, 60_000), ("before", 40_000), (7, 60_000), ("after", 30_000),
    ]  # fmt: skip


def test_rows_of_a_device_are_neighbours_and_the_whole_is_their_sum(tmp_path: Path) -> None:
    rank = Rank()
    rank.step(3, 10_000, 15_000)
    rank.step(5, 30_000, 44_000)
    rank.launch(12_000, 18_000, 37_000)
    rows = analysed(written(tmp_path, [text(rank)])).rows
    lengths = {row.step: row.window_ns for row in rows}
    assert lengths == {3: 27_000, 5: 7_000, None: 34_000}


def test_a_mark_that_appears_twice_counts_once(tmp_path: Path) -> None:
    rank = Rank()
    rank.step(1, 0, 50_000)
    rank.step(1, 60_000, 70_000)
    rank.launch(5_000, 10_000, 20_000)
    assert [label for label, _, _ in windows(rank, tmp_path)] == [None, 1, "after"]


@pytest.mark.parametrize(("step", "partial"), [(2, [(1, 2)]), (1, [])])
def test_a_last_step_much_longer_than_the_other_ranks_is_partial(
    step: int, partial: list[tuple[int, int]], tmp_path: Path
) -> None:
    ranks = [Rank(n, 3) for n in range(3)]
    for rank in ranks:
        begin = 0
        for number in range(3):
            end = begin + (160_000 if (rank.rank, number) == (1, step) else 100_000)
            rank.step(number, begin, end)
            rank.launch(begin + 5_000, begin + 10_000, begin + 50_000)
            begin = end
    rows = analysed(written(tmp_path, map(text, ranks))).rows
    assert [(row.rank, row.step) for row in rows if row.partial and row.step is not None] == partial
