from __future__ import annotations

from pathlib import Path

import pytest
from hand_made import MS, US, Rank, findings, ranks


def looping(iterations: int, between: tuple[str, ...] = ("aten::add",), parent: str = "", length: int = 20 * US) -> list[Rank]:
    """A loop of `aten::select` and the operators `between`, for which the device waits."""

    def body(rank: Rank, _: int) -> None:
        names = ("aten::select", *between)
        took = iterations * len(names) * length
        start, end = rank.gap(4 * MS, took)
        rank.host("aten::mm", rank.begin, rank.begin + US)
        for i in range(iterations * len(names)):
            at = start + i * length
            rank.host(names[i % len(names)], at, at + length)
            rank.host("aten::as_strided", at + US, at + 2 * US)
        if parent:
            rank.host(parent, start - US, end)

    return ranks(1, body)


def test_waiting_for_an_indexing_loop_is_priced(tmp_path: Path) -> None:
    (found,) = findings(looping(50), "indexing-loop", tmp_path)
    # A run of alike iterations is told by three selects, so its last lap may be left out.
    assert found.cost_ns is not None and 48 * 40 * US <= found.cost_ns <= 50 * 40 * US
    assert "50 iterations" in found.where


@pytest.mark.parametrize(
    "run",
    [
        looping(9, length=100 * US),
        looping(20, between=tuple(f"aten::op{i}" for i in range(8))),
        looping(50, parent="aten::unbind"),
        looping(20, length=1_500),
    ],
    ids=["nine iterations", "layers of a model", "inside one operator", "below 1 % of the step"],
)
def test_short_loops_layers_and_inner_operators_are_silent(run: list[Rank], tmp_path: Path) -> None:
    assert findings(run, "indexing-loop", tmp_path) == []


def test_iterations_that_differ_are_no_loop(tmp_path: Path) -> None:
    def body(rank: Rank, _: int) -> None:
        start, _end = rank.gap(4 * MS, 3 * MS)
        for i in range(60):
            at = start + i * 50 * US
            rank.host("aten::select", at, at + 10 * US)
            rank.host(f"aten::op{i % 7}", at + 10 * US, at + 40 * US)

    assert findings(ranks(1, body), "indexing-loop", tmp_path) == []


def test_a_loop_behind_a_busy_device_is_silent(tmp_path: Path) -> None:
    def body(rank: Rank, _: int) -> None:
        rank.fill(rank.begin + 20 * US, rank.begin + 10 * MS)
        for i in range(100):
            rank.host("aten::select", rank.begin + MS + i * 20 * US, rank.begin + MS + (i + 1) * 20 * US)

    assert findings(ranks(1, body), "indexing-loop", tmp_path) == []


def test_a_dozen_iterations_are_a_loop(tmp_path: Path) -> None:
    assert len(findings(looping(12), "indexing-loop", tmp_path)) == 1
