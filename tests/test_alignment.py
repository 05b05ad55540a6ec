"""Sequences of collectives without numbers, one of which lacks some of the other's."""

from __future__ import annotations

import numpy as np
import pytest

from rankscope.analyzers.across_ranks.alignment import align
from rankscope.analyzers.intervals import Spans

SECOND = 10**9
IRREGULAR = np.cumsum([0, 900_000, 1_700_000, 400_000, 2_600_000, 1_100_000, 3_000_000, 700_000, 1_900_000, 500_000])


def ending(ends: np.ndarray, length: int = 200_000) -> Spans:
    return Spans(ends - length, ends)


def jittered(ends: np.ndarray, seed: int, by: int = 20_000) -> np.ndarray:
    return ends + np.random.default_rng(seed).integers(-by, by, len(ends))


@pytest.mark.parametrize("offset", [0, 11_560_000_000, None])
@pytest.mark.parametrize("lost", [[0], [0, 1], [9], [4], [0, 9], [3, 4]])
def test_what_one_rank_lacks_is_left_out(lost: list[int], offset: int | None) -> None:
    kept = np.setdiff1d(np.arange(10), lost)
    ahead = 11_560_000_000 if offset is None else offset
    found = align(ending(IRREGULAR), ending(jittered(IRREGULAR, 1)[kept] + ahead), offset)
    assert found is not None
    assert found.first.tolist() == kept.tolist() and found.second.tolist() == list(range(len(kept)))
    assert found.offset_ns == pytest.approx(ahead, abs=20_000)
    assert found.margin > 1.5


@pytest.mark.parametrize("ppm", [-200, 100, 200])
def test_clocks_that_drift_by_more_than_a_collective_lasts_do_not_set_sequences_apart(ppm: int) -> None:
    ends = np.cumsum(np.random.default_rng(7).integers(40_000_000, 60_000_000, 200))  # ten seconds: up to 2 ms
    kept = np.setdiff1d(np.arange(200), [0, 1, 99])
    other = jittered(ends, 3)[kept]
    found = align(ending(ends), ending(other + 9 * SECOND + other * ppm // 1_000_000), None)
    assert found is not None
    assert found.first.tolist() == kept.tolist() and found.second.tolist() == list(range(len(kept)))
    assert found.drift * 1e6 == pytest.approx(ppm, abs=10)  # 20 us of jitter over two thirds of ten seconds
    assert found.spread_ns < 30_000


def test_either_side_may_lack_some() -> None:
    found = align(ending(IRREGULAR[:-1]), ending(jittered(IRREGULAR, 2)[1:]), 0)
    assert found is not None
    assert found.first.tolist() == list(range(1, 9)) and found.second.tolist() == list(range(8))


def test_equal_sequences_are_paired_from_the_front() -> None:
    regular = np.arange(10) * SECOND
    found = align(ending(regular), ending(regular + 3 * SECOND), None)
    assert found is not None and found.first.tolist() == found.second.tolist() == list(range(10))


def test_without_a_clock_a_regular_sequence_that_lacks_one_is_ambiguous() -> None:
    regular = np.arange(10) * SECOND
    assert align(ending(regular), ending(regular[1:] + 3 * SECOND), None) is None


def test_nothing_and_too_many_are_no_alignment() -> None:
    nothing = np.empty(0, np.int64)
    assert align(ending(nothing), ending(IRREGULAR), 0) is None
    assert align(ending(np.arange(100) * SECOND), ending(np.arange(3) * SECOND), 0) is None
