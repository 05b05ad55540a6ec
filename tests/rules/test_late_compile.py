from __future__ import annotations

from pathlib import Path

import pytest
from hand_made import MS, US, Rank, diagnosed, findings, ranks

COMPILE = "entire_frame_compile (dynamo_timed)"


def compiling(length: int, step: int, name: str = COMPILE, steps: int = 20) -> list[Rank]:
    def body(rank: Rank, number: int) -> None:
        start, end = rank.gap(4 * MS, length if number == step else US)
        if number == step:
            rank.host(name, start - US, end, "user_annotation")

    return ranks(1, body, steps=steps)


def test_compilation_after_warm_up_is_priced_over_the_run(tmp_path: Path) -> None:
    (found,) = findings(compiling(4 * MS, step=12), "late-compile", tmp_path)
    assert found.cost_ns == round(4 * MS / 19) and "recompiles" in found.advice


def test_compilation_seen_in_stacks_counts(tmp_path: Path) -> None:
    run = compiling(4 * MS, step=12, name="torch/_dynamo/convert_frame.py(1172): compile_inner")
    for event in run[0].events:
        if "convert_frame" in event["name"]:
            event["cat"] = "python_function"
    assert len(findings(run, "late-compile", tmp_path)) == 1


@pytest.mark.parametrize(
    "run",
    [
        compiling(4 * MS, step=9),
        compiling(1_800 * US, step=12),
        compiling(4 * MS, step=12, name="Torch-Compiled Region: 0/1"),
    ],
    ids=["warm-up", "below 1 % of the run", "compiled code that runs"],
)
def test_warm_up_and_compiled_code_are_silent(run: list[Rank], tmp_path: Path) -> None:
    assert findings(run, "late-compile", tmp_path) == []


def test_a_capture_of_early_steps_alone_cannot_tell(tmp_path: Path) -> None:
    diagnosis = diagnosed(compiling(4 * MS, step=3, steps=8), "late-compile", tmp_path)
    assert diagnosis.findings == [] and [r.rule for r in diagnosis.rules.inconclusive] == ["late-compile"]
