"""Step times as a series: lasting changes are found where they are, spikes and noise are not taken for them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankscope.analyzers.series.changes import changes
from rankscope.analyzers.series.spikes import period, spikes, warm_up

MS = 1e6


def noisy(steps: int, spread: float = 0.05, seed: int = 0) -> np.ndarray:
    """Step times around 100 ms."""
    return 100 * MS * (1 + spread * np.random.default_rng(seed).standard_normal(steps))


@pytest.mark.parametrize("share", [0.1, 0.3, -0.2])
def test_a_lasting_change_is_dated_and_sized(share: float) -> None:
    times = noisy(600)
    times[400:] *= 1 + share
    (found,) = changes(times)
    assert abs(found.at - 400) <= 5
    # the median of 200 normal steps is 0.44 % uncertain, that of 400 0.31 %
    assert found.share == pytest.approx(share, abs=0.025)


def test_two_changes_are_two_with_the_level_between_them() -> None:
    times = noisy(900, seed=3)
    times[300:600] *= 1.25
    first, second = changes(times)
    assert abs(first.at - 300) <= 3 and abs(second.at - 600) <= 3
    assert first.after_ns == second.before_ns == pytest.approx(125 * MS, rel=0.015)


def test_noise_is_no_change() -> None:
    assert [changes(noisy(2_000, seed=seed)) for seed in range(20)] == [[]] * 20


def test_checkpoints_and_evaluations_are_spikes_and_no_change() -> None:
    times = noisy(2_000, seed=1)
    times[99::100] *= 3  # a checkpoint
    for begin in range(250, 2_000, 250):
        times[begin : begin + 5] *= 1.8  # five steps of evaluation
    assert changes(times) == []


def test_a_change_among_spikes_is_found() -> None:
    times = noisy(1_000, seed=2)
    times[49::50] *= 2.5
    times[700:] *= 1.1
    (found,) = changes(times)
    assert abs(found.at - 700) <= 10


def test_neighbours_that_resemble_each_other_are_not_taken_for_a_change() -> None:
    draw = np.random.default_rng(5).standard_normal(10_000)
    for i in range(1, len(draw)):
        draw[i] = 0.5 * draw[i - 1] + 0.75**0.5 * draw[i]
    assert changes(100 * MS * (1 + 0.05 * draw)) == []


@pytest.mark.parametrize("steps", [16, 17, 40, 101])
def test_a_series_that_goes_to_and_fro_has_no_change(steps: int) -> None:
    for seed in range(10):
        times = noisy(steps, 0.01, seed)
        times[::2] += 35 * MS
        assert changes(times) == []


def test_short_series_and_missing_steps_are_no_error() -> None:
    assert changes(np.empty(0)) == changes(np.full(5, MS)) == changes(np.full(50, np.nan)) == []
    times = noisy(400, 0.02)
    times[200:] *= 1.3
    times[::7] = np.nan
    (found,) = changes(times)
    assert abs(found.at - 200) <= 2


@given(st.integers(7, 60), st.integers(7, 60), st.integers(1, 10**6), st.floats(0.05, 5))
def test_without_noise_the_change_is_exact(before: int, after: int, ns: int, share: float) -> None:
    times = np.concatenate((np.full(before, float(ns)), np.full(after, ns * (1 + share))))
    found = changes(times)
    # a level that lasts for less than half of the running median's window is a spike, which is said of it
    if after > 10 and before > 10:
        assert [change.at for change in found] == [before]


def test_the_unit_of_time_changes_nothing() -> None:
    times = noisy(300, seed=4)
    times[150:] *= 1.2
    assert [c.at for c in changes(times)] == [c.at for c in changes(times / 2**20)]


def test_spikes_that_come_regularly_have_a_period_and_a_cost() -> None:
    times = noisy(1_000, 0.02)
    times[24::25] += 60 * MS
    found = period(np.arange(1_000), times, spikes(times))
    assert found is not None and (found.steps, found.times) == (25, 40)
    assert found.excess_ns == pytest.approx(60 * MS, rel=0.02)


def test_one_missed_spike_does_not_hide_a_period_and_chance_has_none() -> None:
    times = noisy(1_000, 0.02)
    at = np.arange(24, 1_000, 25)
    times[np.delete(at, 9)] += 60 * MS
    found = period(np.arange(1_000), times, spikes(times))
    assert found is not None and found.steps == 25
    times = noisy(1_000, 0.02)
    times[np.random.default_rng(0).choice(1_000, 40, replace=False)] += 60 * MS
    assert period(np.arange(1_000), times, spikes(times)) is None


def test_warm_up_is_what_is_twice_as_long_at_the_beginning() -> None:
    assert warm_up(np.array([900.0, 310, 100, 101, 99, 250, 100])) == 2
    assert warm_up(np.array([100.0, 101, 99])) == warm_up(np.empty(0)) == 0
