from __future__ import annotations

from pathlib import Path

import pytest
from hand_made import FIRST, MS, STEP, STEPS, Rank, findings, ranks, skipped

CAPACITY = 80_000_000_000


def remembering(usual: float, most: float, hits: frozenset[int] = frozenset(range(99)), steps: int = STEPS) -> list[Rank]:
    """Shares of the device's memory allocated at the peak of each step; rank 2 has `most` in the steps `hits`."""

    def body(rank: Rank, number: int) -> None:
        full = most if rank.rank == 2 and number in hits else usual
        rank.fill(rank.begin + FIRST, rank.begin + STEP)
        rank.memory(rank.begin + MS, round(full * CAPACITY), round(0.6 * CAPACITY))
        rank.memory(rank.begin + 5 * MS, 1 << 20, 1 << 30)

    return ranks(4, body, steps=steps)


def test_the_rank_with_most_memory_is_named_without_a_price(tmp_path: Path) -> None:
    (found,) = findings(remembering(0.4, 0.5), "memory-imbalance", tmp_path)
    assert (found.kind, found.severity, found.cost_ns, found.ranks) == ("risk", "warning", None, [2])
    assert "25.0 %" in found.message and found.confidence > 0.5


@pytest.mark.parametrize(("usual", "most"), [(0.4, 0.47), (0.2, 0.29)], ids=["a fifth more", "mostly empty"])
def test_small_differences_and_empty_devices_are_silent(usual: float, most: float, tmp_path: Path) -> None:
    assert findings(remembering(usual, most), "memory-imbalance", tmp_path) == []


def test_far_more_on_a_half_full_device_is_critical(tmp_path: Path) -> None:
    (found,) = findings(remembering(0.4, 0.55), "memory-imbalance", tmp_path)
    assert found.severity == "critical"


def test_a_peak_that_comes_and_goes_names_nobody(tmp_path: Path) -> None:
    hits = frozenset(range(5, 12))
    assert findings(remembering(0.4, 0.6, hits), "memory-imbalance", tmp_path) == []


def test_on_few_steps_the_rank_is_doubted(tmp_path: Path) -> None:
    (found,) = findings(remembering(0.4, 0.6, steps=2), "memory-imbalance", tmp_path)
    assert found.ranks == [2] and found.confidence <= 0.5


def test_without_memory_events_on_every_rank_the_rule_is_skipped(tmp_path: Path) -> None:
    run = remembering(0.4, 0.6)
    run[1].events = [event for event in run[1].events if event["name"] != "[memory]"]
    assert "profile_memory=True" in skipped(run, "memory-imbalance", tmp_path)


@pytest.mark.parametrize(("usual", "most"), [(0.25, 0.32), (0.26, 0.4)], ids=["a third full", "less than half full"])
def test_far_more_on_a_device_with_room_is_a_warning(usual: float, most: float, tmp_path: Path) -> None:
    assert [f.severity for f in findings(remembering(usual, most), "memory-imbalance", tmp_path)] == ["warning"]
