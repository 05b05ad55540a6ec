"""The short form of benchmarks/accuracy.py: a few runs of each kind with seeds used while tuning; and how it counts."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from itertools import count, islice
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))

from accuracy import FAULTY, HEALTHY, SEEDS, figures
from accuracy_judged import Outcome, Spoken, judge
from accuracy_kept import keep, known
from accuracy_runs import LEAST, MOST, RECIPES, RECORDED, Run, faulty, healthy, recorded_paths, spliced, spliced_healthy

SMALL = 8  # ranks


def small(make: Callable[[int], Run]) -> Iterator[Run]:
    """The runs of a few ranks."""
    return (run for run in map(make, count(SEEDS["tuning"])) if run.scenario and run.scenario.ranks == SMALL)


def test_small_healthy_runs_are_told_so() -> None:
    assert [outcome.wrong for outcome in map(judge, islice(small(healthy), 3)) if outcome.wrong] == []


def test_small_runs_with_a_fault_are_told_which() -> None:
    kinds = {run.name: run for run in islice(small(faulty), 40)}
    assert [outcome.wrong for outcome in map(judge, list(kinds.values())[:6]) if outcome.wrong] == []


@pytest.mark.parametrize("make", [spliced, spliced_healthy], ids=lambda make: make.__name__)
def test_recorded_runs_with_a_delay_are_told_whose_and_with_none_nothing_new(make: Callable[[int], Run]) -> None:
    if not all(map(recorded_paths, RECORDED)):
        pytest.skip("the corpus is not here (RANKSCOPE_CORPUS)")
    runs = (make(SEEDS["tuning"] + i) for i in range(50))
    light = [run for run in runs if run.recorded in ("dlrm, 8 ranks", "resnet, 2 ranks")][:2]
    assert [outcome.wrong for outcome in map(judge, light) if outcome.wrong] == []


def test_runs_are_drawn_alike_each_time_and_columns_share_no_seed() -> None:
    assert SEEDS["frozen"] - SEEDS["tuning"] > HEALTHY + FAULTY
    for seed in range(40):
        assert faulty(seed) == faulty(seed) and healthy(seed) == healthy(seed)
        run = faulty(seed)
        assert run.scenario and all(rank < run.scenario.ranks for rank in run.ranks)
        assert run.share == 0 or LEAST <= run.share <= MOST
    turns = sum(recipe.weight for recipe in RECIPES.values())
    assert {faulty(seed).name for seed in range(turns)} == set(RECIPES)


def outcome(run: Run, *found: tuple[str, tuple[int, ...]], share: float | None = 0.2) -> Outcome:
    return Outcome(run, tuple(Spoken(rule, "time", ranks) for rule, ranks in found), share)


def test_what_is_wrong_lowers_the_figures() -> None:
    well, ill = healthy(1), next(run for run in map(faulty, range(40)) if run.name == "slow compute")
    right, wrong, late = ("straggler-rank", ill.ranks), ("straggler-rank", (99,)), ("slow-link", (3,))
    told = figures(
        [
            outcome(ill, right), outcome(ill, right, late), outcome(ill, late, right), outcome(ill, wrong), outcome(ill),
            outcome(ill, share=0.09), outcome(well), outcome(well, late),
        ]
    )  # fmt: skip
    shares = {name: (value["found"], value["of"]) for name, value in told["shares"].items() if isinstance(value, dict)}
    assert shares["rank top-1"] == (2, 5)
    assert shares["planted rule first"] == (3, 5)
    assert shares["healthy, no finding of kind time"] == shares["healthy, no rank named"] == (1, 2)
    assert told["shares"]["hidden or below 10 % of the step, left out of the above"] == 1
    straggler, link = told["rules"]["straggler-rank"], told["rules"]["slow-link"]
    assert (straggler["recall"]["found"], straggler["recall"]["of"]) == (4, 6)
    assert (link["precision"]["found"], link["precision"]["of"]) == (0, 3)
    assert link["beside"] == {"slow compute": 2, "healthy": 1}


def test_runs_that_were_judged_before_are_not_run_again_unless_the_code_is_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, runs = tmp_path / "kept.jsonl", [healthy(1), faulty(2), faulty(3)]
    judged = [outcome(runs[0]), outcome(runs[1], ("straggler-rank", (3, 4)), share=None)]
    assert list(keep(judged, kept)) == judged
    assert known(runs, kept) == judged
    kept.write_text(kept.read_text() + '{"code": "cut o', encoding="utf-8")
    assert list(keep([outcome(runs[2])], kept)) and known(runs, kept) == [*judged, outcome(runs[2])]
    assert known([faulty(9)], kept) == []
    monkeypatch.setattr("accuracy_kept.code", lambda: "another")
    assert known(runs, kept) == []
