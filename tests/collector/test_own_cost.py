"""What the collector costs: counted, stored, and thinned out above its budget."""

from __future__ import annotations

from pathlib import Path

import pytest
from recorded import one

import rankscope
from rankscope.collector import overhead
from rankscope.collector.overhead import MOST, WINDOW, Overhead
from rankscope.collector.profile import active
from rankscope.collector.stages import StageClock


def account(monkeypatch: pytest.MonkeyPatch, budget: float = 0.01) -> tuple[StageClock, Overhead]:
    monkeypatch.setattr(overhead, "unseen_ns", lambda: 100)
    clock = StageClock()
    return clock, Overhead(clock, budget)


def window(clock: StageClock, kept: Overhead, cost_share: float) -> bool:
    """One window of steps of a millisecond, in which hooks take this share; whether it was thinned at its end."""
    thinned = False
    for _ in range(WINDOW):
        clock.hooks_ns += int(1_000_000 * cost_share)
        thinned |= kept.stepped(1_000_000, 0)
    return thinned


def test_below_its_budget_it_listens_to_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, kept = account(monkeypatch)
    assert not any(window(clock, kept, 0.0099) for _ in range(5))
    assert kept.every == 1


def test_above_its_budget_it_listens_to_half_the_steps_and_then_to_half_of_those(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, kept = account(monkeypatch)
    assert window(clock, kept, 0.02) and kept.every == 2
    assert window(clock, kept, 0.02) and kept.every == 4
    assert not window(clock, kept, 0.005) and kept.every == 4


def test_another_process_that_takes_the_processor_in_a_hook_is_not_its_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, kept = account(monkeypatch)
    for step in range(WINDOW):
        clock.hooks_ns += 4_000_000 if step == 7 else 5_000  # a time slice in one step
        thinned = kept.stepped(1_000_000, 0)
    assert not thinned and kept.facts(0)["hooks_counted_ns"] == (WINDOW - 1 + overhead.CAP) * 5_000
    assert kept.facts(0)["hooks_ns"] == (WINDOW - 1) * 5_000 + 4_000_000


def test_what_is_done_in_some_steps_only_counts_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, kept = account(monkeypatch)
    for step in range(WINDOW):
        clock.hooks_ns += 45_000 if step % 5 == 0 else 5_000  # 1.3 % of the steps in the mean, 0.5 % in the median
        thinned = kept.stepped(1_000_000, 0)
    assert thinned


def test_it_never_stops_listening_altogether(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, kept = account(monkeypatch)
    for _ in range(20):
        window(clock, kept, 0.5)
    assert kept.every == MOST


def test_calls_and_the_threads_time_count_beside_the_time_in_hooks(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, kept = account(monkeypatch)
    clock.hooks, clock.hooks_ns = 10, 500
    kept.stepped(100_000, 300)
    assert kept.cost_ns(300) == 500 + 10 * 100 + 300
    facts = kept.facts(300)
    assert facts["share"] == pytest.approx(0.018) and facts["step_with_ns"] - facts["step_without_ns"] == 1_800


def test_a_thinned_run_says_so_and_has_every_nth_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANKSCOPE_QUIET", "1")
    with rankscope.profile(tmp_path / "run", budget_share=1e-9) as p:
        for _ in range(3 * WINDOW):
            with p.span("forward"):
                pass
            p.log(loss=1.0)
            p.step()
        session = active()
        assert session is not None and session.overhead.every == 8
    found = one(tmp_path / "run")
    steps = [line["step"] for line in found.pulse]
    assert found.manifest.steps == 3 * WINDOW and found.manifest.overhead["every"] == 8
    assert steps[:WINDOW] == list(range(WINDOW))
    assert [step for step in steps if step >= 2 * WINDOW] == list(range(100, 3 * WINDOW, 4))
    assert [event["every"] for event in found.events if event["kind"] == "thinned"] == [2, 4, 8]
    for line in found.pulse:
        assert sum(line["stages"].values()) == line["wall_ns"]
