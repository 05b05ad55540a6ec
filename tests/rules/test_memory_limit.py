from __future__ import annotations

from pathlib import Path

import pytest
from hand_made import FIRST, MS, STEP, Rank, findings, ranks, skipped

CAPACITY = 80_000_000_000


def remembering(reserved: list[float], allocated: float = 0.5) -> list[Rank]:
    """By rank: the share of the device's memory reserved at the peak of each step."""

    def body(rank: Rank, _: int) -> None:
        rank.fill(rank.begin + FIRST, rank.begin + STEP)
        rank.memory(rank.begin + MS, round(allocated * CAPACITY), round(reserved[rank.rank] * CAPACITY))
        rank.memory(rank.begin + 5 * MS, 1 << 20, 1 << 30)

    return ranks(len(reserved), body)


def test_a_full_device_is_a_risk_without_a_price(tmp_path: Path) -> None:
    (found,) = findings(remembering([0.5, 0.91]), "memory-limit", tmp_path)
    assert (found.kind, found.severity, found.cost_ns, found.ranks) == ("risk", "warning", None, [])
    evidence = {e.label: e.value for e in found.evidence}
    assert evidence["rank with most"] == 1 and evidence["reserved at the peak of a step"] == round(0.91 * CAPACITY)


@pytest.mark.parametrize(("full", "severities"), [(0.89, []), (0.96, ["warning"]), (0.98, ["critical"])])
def test_nine_tenths_are_the_threshold_and_the_last_hundredths_critical(
    full: float, severities: list[str], tmp_path: Path
) -> None:
    assert [f.severity for f in findings(remembering([full]), "memory-limit", tmp_path)] == severities


def test_a_peak_belongs_to_the_step_in_which_the_host_allocates(tmp_path: Path) -> None:
    """The host is through with all steps before the device has ended the second."""
    rank = Rank(0, 1)
    for number, begin in enumerate(rank.steps(length=MS)):
        rank.kernel(number * STEP + FIRST, (number + 1) * STEP)
        rank.memory(begin + 100_000, CAPACITY // 2, round(0.95 * CAPACITY))
        rank.memory(begin + 200_000, 1 << 20, 1 << 30)
    (found,) = findings(rank, "memory-limit", tmp_path)
    assert {e.label: e.value for e in found.evidence}["reserved at the peak of a step"] == round(0.95 * CAPACITY)


def test_memory_of_the_cpu_does_not_count(tmp_path: Path) -> None:
    run = remembering([0.5])
    run[0].memory(2 * MS, CAPACITY, CAPACITY, kind=0)
    assert findings(run, "memory-limit", tmp_path) == []


def test_without_memory_events_or_capacity_the_rule_is_skipped(tmp_path: Path) -> None:
    run = ranks(1, lambda rank, _: rank.fill(rank.begin + FIRST, rank.begin + STEP))
    assert "profile_memory=True" in skipped(run, "memory-limit", tmp_path)
    run = remembering([0.95])
    run[0].head["deviceProperties"] = [{"id": 0, "name": "NVIDIA H100"}]
    assert "deviceProperties" in skipped(run, "memory-limit", tmp_path)
