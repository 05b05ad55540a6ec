from __future__ import annotations

from pathlib import Path

from hand_made import FIRST, MS, STEP, US, Rank, findings, ranks, skipped


def communicating(length: int, late: int) -> list[Rank]:
    """An exposed all-reduce of `length`; the next kernel is launched `late` after its begin."""

    def body(rank: Rank, _: int) -> None:
        start = rank.begin + 4 * MS
        rank.fill(rank.begin + FIRST, start)
        rank.collective(start, start + length)
        rank.kernel(start + length + 10 * US, rank.begin + STEP, asked=start + late)

    return ranks(2, body)


def test_communication_before_the_next_launch_is_priced(tmp_path: Path) -> None:
    (found,) = findings(communicating(MS, 900 * US), "host-late-communication", tmp_path)
    assert found.cost_ns == 900 * US and "90.0 %" in found.where and found.ranks == []


def test_a_host_late_for_less_than_half_is_not_the_cause(tmp_path: Path) -> None:
    assert findings(communicating(2 * MS, 980 * US), "host-late-communication", tmp_path) == []
    assert len(findings(communicating(2 * MS, 1020 * US), "host-late-communication", tmp_path)) == 1


def test_less_than_a_twentieth_of_the_step_is_silent(tmp_path: Path) -> None:
    assert findings(communicating(490 * US, 490 * US), "host-late-communication", tmp_path) == []


def test_without_launches_the_rule_is_skipped(tmp_path: Path) -> None:
    run = ranks(1, lambda rank, _: rank.kernel(rank.begin, rank.begin + MS, launched=False))
    assert "ProfilerActivity.CPU" in skipped(run, "host-late-communication", tmp_path)


def test_just_above_a_twentieth_of_the_step_is_told(tmp_path: Path) -> None:
    assert len(findings(communicating(550 * US, 550 * US), "host-late-communication", tmp_path)) == 1
