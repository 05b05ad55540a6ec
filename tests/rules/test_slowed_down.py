from __future__ import annotations

from pathlib import Path

import pytest
from runs_made import Job

import rankscope
from rankscope.analyzers.findings import Finding


def found(folder: Path) -> list[Finding]:
    return [f for f in rankscope.diagnose(folder, cache=False, jobs=1).findings if f.rule == "slowed-down"]


@pytest.mark.parametrize("stage", ["forward", "backward", "data"])
def test_the_step_the_rank_and_the_stage_of_a_change_are_named(stage: str, tmp_path: Path) -> None:
    Job(steps=200, late={(2, stage): 40}, late_from=140).write(tmp_path)
    (finding,) = found(tmp_path)
    assert finding.ranks == [2] and f"in its {stage} stage" in finding.message
    assert finding.evidence[0].label == "first slower step" and abs(int(finding.evidence[0].value) - 140) <= 2
    assert finding.cost_ns == pytest.approx(40e6, rel=0.1)  # the median of 60 noisy steps of 204 ms


def test_a_change_on_all_ranks_names_none(tmp_path: Path) -> None:
    Job(steps=200, late={(rank, "forward"): 40 for rank in range(4)}, late_from=100).write(tmp_path)
    (finding,) = found(tmp_path)
    assert finding.ranks == []


@pytest.mark.parametrize(("ms", "said"), [(16, 0), (28, 1)])
def test_a_tenth_of_the_step_is_the_threshold(ms: int, said: int, tmp_path: Path) -> None:
    # the step takes about 205 ms
    Job(steps=200, late={(rank, "forward"): ms for rank in range(4)}, late_from=100).write(tmp_path)
    assert len(found(tmp_path)) == said


def test_a_rank_that_was_slow_all_along_is_no_change(tmp_path: Path) -> None:
    Job(steps=200, late={(2, "forward"): 40}).write(tmp_path)
    assert found(tmp_path) == []


def test_a_run_that_became_faster_is_not_slower(tmp_path: Path) -> None:
    Job(steps=200, late={(rank, "forward"): 40 for rank in range(4)}, late_from=100).write(tmp_path / "slow")
    faster = Job(
        steps=200, stages={"forward": 100, "backward": 100}, late={(r, "forward"): -40 for r in range(4)}, late_from=100
    )
    faster.write(tmp_path / "fast")
    assert found(tmp_path / "fast") == []


def test_few_steps_skip_it_and_say_what_records_more(tmp_path: Path) -> None:
    Job(steps=12).write(tmp_path)
    skipped = {s.rule: s for s in rankscope.diagnose(tmp_path, cache=False, jobs=1).rules.skipped}
    assert "14 steps" in skipped["slowed-down"].reason and "rankscope run" in skipped["slowed-down"].record
