"""The short form of benchmarks/clock.py: clocks of hosts found again in many drawn runs, through matching."""

from __future__ import annotations

import pytest

from benchmarks.clock_runs import Score, drawn, from_ends, from_files, summary

FIRST = 90_000  # seeds of this test alone


@pytest.fixture(scope="module")
def enough() -> list[Score]:
    """Runs of 50 collectives of each group and more."""
    return [from_ends(drawn(FIRST + i, 50, 400)) for i in range(60)]


@pytest.fixture(scope="module")
def few() -> list[Score]:
    return [from_ends(drawn(FIRST + i, 3, 49)) for i in range(100, 180)]


def test_clocks_ten_seconds_apart_that_drift_by_a_hundred_ppm_are_found_within_20_us(enough: list[Score]) -> None:
    found = summary(enough)
    assert found["error_p99_us"] <= 20 and found["covered_share"] >= 0.95
    assert found["ratio_largest_sharing"] <= 1.5


def test_the_residual_covers_the_error_in_runs_of_a_few_collectives_too(few: list[Score]) -> None:
    assert summary(few)["covered_share"] >= 0.95


def test_hosts_that_share_too_few_collectives_are_refused_and_no_others(enough: list[Score], few: list[Score]) -> None:
    found = summary(enough + few)
    assert found["pairs_apart"] > 1_000
    assert found["pairs_refused"] == found["pairs_apart"] and found["pairs_wrongly_refused"] == 0


def test_collectives_without_numbers_are_aligned_although_clocks_are_apart_and_drift() -> None:
    found = summary([from_ends(drawn(FIRST + i, 50, 120), numbered=False) for i in range(200, 210)])
    assert found["pairs_wrongly_refused"] == 0 and found["pairs_refused"] == found["pairs_apart"] > 0
    assert found["error_p99_us"] <= 20 and found["covered_share"] >= 0.95


def test_whole_files_say_the_same() -> None:
    found = summary([from_files(FIRST + 300), from_files(FIRST + 301)])
    assert found["error_p99_us"] <= 20 and found["covered_share"] >= 0.95
    assert found["pairs_wrongly_refused"] == 0
