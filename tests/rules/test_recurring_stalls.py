from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from runs_made import MS, Change, Job

import rankscope
from rankscope.analyzers.findings import Finding


def every(steps: int, ms: int, stage: str = "other") -> Change:
    """Every so many steps all ranks take longer in one stage."""

    def change(rank: int, step: int, record: dict[str, Any]) -> dict[str, Any]:
        if step % steps == steps - 1:
            record["stages"][stage] = record["stages"].get(stage, 0) + ms * MS
            record["wall_ns"] += ms * MS
        return record

    return change


def found(folder: Path) -> list[Finding]:
    return [f for f in rankscope.diagnose(folder, cache=False, jobs=1).findings if f.rule == "recurring-stalls"]


def test_what_comes_every_so_many_steps_is_told_with_its_stage_and_price(tmp_path: Path) -> None:
    Job(steps=200, change=every(20, 300)).write(tmp_path)
    (finding,) = found(tmp_path)
    assert finding.message.startswith("Every 20 steps one takes 3") and "in its other stage" in finding.message
    assert finding.cost_ns == pytest.approx(300e6 / 20, rel=0.05) and finding.ranks == []


def test_checkpoints_are_left_to_their_own_rule(tmp_path: Path) -> None:
    Job(steps=200, change=every(20, 300, "checkpoint")).write(tmp_path)
    assert found(tmp_path) == []


@pytest.mark.parametrize(("ms", "said"), [(30, 0), (60, 1)])
def test_below_a_hundredth_of_the_step_it_is_silent(ms: int, said: int, tmp_path: Path) -> None:
    # every 20 steps: 1.5 and 3.0 ms a step of about 207 ms
    Job(steps=200, change=every(20, ms)).write(tmp_path)
    assert len(found(tmp_path)) == said


def test_steps_that_are_long_as_they_like_have_no_period(tmp_path: Path) -> None:
    long = {13, 17, 50, 51, 90, 96, 140, 171, 190}

    def change(rank: int, step: int, record: dict[str, Any]) -> dict[str, Any]:
        record["wall_ns"] += 300 * MS * (step in long)
        return record

    Job(steps=200, change=change).write(tmp_path)
    assert found(tmp_path) == []


def test_few_steps_skip_it(tmp_path: Path) -> None:
    Job(steps=15).write(tmp_path)
    skipped = {s.rule: s.reason for s in rankscope.diagnose(tmp_path, cache=False, jobs=1).rules.skipped}
    assert "21 steps" in skipped["recurring-stalls"]
