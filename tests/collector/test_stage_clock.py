"""The stage clock: each nanosecond in one stage, sums exact, only the training thread."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from rankscope.collector import stages
from rankscope.collector.stages import BACKWARD, DATA, FORWARD, OPTIMIZER, OTHER, StageClock


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The clock's time, in nanoseconds, moved by the test."""
    now = [1_000]
    monkeypatch.setattr(stages, "now_ns", lambda: now[0])
    return now


@pytest.fixture
def clock(time: list[int]) -> StageClock:
    made = StageClock()
    made.listening = True
    return made


def walk(clock: StageClock, time: list[int], *moves: tuple[int, int]) -> None:
    """Enter each stage and let so much time pass."""
    for stage, ns in moves:
        clock.enter(stage)
        time[0] += ns


def closed(clock: StageClock, time: list[int], step: int = 0) -> dict[str, Any]:
    clock.close(time[0])
    return clock.record(step)


def test_each_stage_gets_its_time_and_they_add_up_to_the_step(clock: StageClock, time: list[int]) -> None:
    time[0] += 3
    walk(clock, time, (DATA, 10), (FORWARD, 20), (BACKWARD, 40), (OTHER, 1), (OPTIMIZER, 5), (OTHER, 2))
    line = closed(clock, time)
    assert line["stages"] == {"data": 10, "forward": 20, "backward": 40, "optimizer": 5, "other": 6}
    assert line["wall_ns"] == 81 == sum(line["stages"].values())


def test_what_lies_between_a_boundary_and_backward_is_forward(clock: StageClock, time: list[int]) -> None:
    time[0] += 30
    before = clock.enter_backward()
    time[0] += 50
    clock.leave(before)
    assert closed(clock, time)["stages"] == {"forward": 30, "backward": 50}


def test_blocked_time_belongs_to_the_stage_that_its_segment_ends_in(clock: StageClock, time: list[int]) -> None:
    time[0] += 30
    clock.blocked(25)
    clock.enter_backward()
    time[0] += 50
    clock.blocked(7)
    line = closed(clock, time)
    assert line["wait"] == {"forward": 25, "backward": 7}


def test_no_stage_waits_longer_than_it_lasts(clock: StageClock, time: list[int]) -> None:
    clock.enter(FORWARD)
    time[0] += 10
    clock.blocked(25)
    assert closed(clock, time)["wait"] == {"forward": 10}


def test_a_wait_that_is_not_known_is_left_out_and_is_not_zero(clock: StageClock, time: list[int]) -> None:
    walk(clock, time, (FORWARD, 10), (BACKWARD, 10))
    clock.blocked(None)
    assert closed(clock, time)["wait"] == {"forward": 0}


def test_a_step_can_be_closed_at_a_past_mark_and_the_next_one_has_the_rest(clock: StageClock, time: list[int]) -> None:
    walk(clock, time, (FORWARD, 10), (BACKWARD, 20))
    mark = clock.mark(time[0])
    walk(clock, time, (OPTIMIZER, 3), (FORWARD, 11))
    clock.blocked(4)
    rest = clock.cut(mark)
    first = closed(clock, [mark.at_ns])
    clock.restart(mark.at_ns)
    clock.resume(rest)
    walk(clock, time, (BACKWARD, 21))
    second = closed(clock, time, 1)
    assert first["stages"] == {"forward": 10, "backward": 20} and first["wall_ns"] == 30
    assert second["stages"] == {"optimizer": 3, "forward": 11, "backward": 21} and second["wall_ns"] == 35
    assert second["wait"]["forward"] == 4
    assert second["begin_ns"] == pytest.approx(mark.at_unix_ns, abs=1)


def test_only_the_thread_that_is_watched_has_the_clock(clock: StageClock) -> None:
    seen = []
    other = threading.Thread(target=lambda: seen.append(clock.mine))
    other.start()
    other.join()
    assert clock.mine and seen == [False]


def test_a_deaf_clock_is_nobodys(clock: StageClock) -> None:
    clock.listening = False
    assert not clock.mine


def test_events_are_marked_at_the_begin_of_a_step_and_at_the_end_of_each_stage(
    clock: StageClock, time: list[int]
) -> None:
    marks: list[int] = []
    clock.marked = marks.append
    clock.restart(time[0])
    walk(clock, time, (FORWARD, 10), (BACKWARD, 20))
    clock.close(time[0])
    assert marks == [stages.BEGIN, OTHER, FORWARD, BACKWARD]


def test_own_time_is_counted_with_its_calls(clock: StageClock, time: list[int]) -> None:
    clock.count(time[0] - 40)
    assert (clock.hooks, clock.hooks_ns) == (1, 40)
