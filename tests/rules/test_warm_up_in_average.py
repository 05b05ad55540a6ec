from __future__ import annotations

from pathlib import Path

from hand_made import FIRST, MS, Rank, findings, skipped


def steps(*lengths: int) -> Rank:
    rank, at = Rank(), 0
    for number, length in enumerate(lengths):
        rank.begin = at
        rank.host(f"ProfilerStep#{number}", at, at + length, "user_annotation")
        rank.fill(at + FIRST, at + length)
        at += length
    return rank


def test_long_leading_steps_are_said_without_a_price(tmp_path: Path) -> None:
    (found,) = findings(steps(70 * MS, 40 * MS, *[10 * MS] * 8), "warm-up-in-average", tmp_path)
    assert found.kind == "validity" and found.cost_ns is None and found.severity == "note"
    assert "Steps 0, 1" in found.message and "90.0 %" in found.message


def test_a_first_step_up_to_twice_the_others_is_silent(tmp_path: Path) -> None:
    assert findings(steps(19 * MS, *[10 * MS] * 8), "warm-up-in-average", tmp_path) == []
    assert len(findings(steps(21 * MS, *[10 * MS] * 8), "warm-up-in-average", tmp_path)) == 1


def test_a_long_step_in_the_middle_is_no_warm_up(tmp_path: Path) -> None:
    assert findings(steps(*[10 * MS] * 4, 90 * MS, *[10 * MS] * 4), "warm-up-in-average", tmp_path) == []


def test_too_few_steps_tell_nothing_of_what_is_usual(tmp_path: Path) -> None:
    assert findings(steps(90 * MS, 10 * MS, 10 * MS), "warm-up-in-average", tmp_path) == []


def test_without_marks_the_rule_is_skipped(tmp_path: Path) -> None:
    rank = Rank()
    rank.fill(FIRST, 5 * MS)
    assert "prof.step()" in skipped(rank, "warm-up-in-average", tmp_path)


def test_three_steps_after_it_tell_what_is_usual(tmp_path: Path) -> None:
    assert len(findings(steps(90 * MS, 10 * MS, 10 * MS, 10 * MS), "warm-up-in-average", tmp_path)) == 1
