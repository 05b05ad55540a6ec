"""One clock: offsets and drifts of hosts found again from the ends of collectives."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankscope.analyzers.across_ranks.clock import Clocks, End
from rankscope.analyzers.across_ranks.clock_fit import fit_clocks

SECOND, US = 10**9, 1_000
BASE = 1_767_225_600 * SECOND


def met(n: int, clocks: list[tuple[int, float]], jitter: int, seed: int = 0, every: int = SECOND // 5) -> list[End]:
    """`n` collectives of one lane a clock, each (offset, drift), whose ends agree but for the jitter."""
    true = BASE + np.arange(n) * every
    noise = np.random.default_rng(seed)
    own = [true + offset + np.rint(drift * (true - BASE)).astype(np.int64) for offset, drift in clocks]
    own = [times + noise.integers(-jitter, jitter + 1, n) for times in own]
    return [End(np.arange(len(clocks)), np.array([times[i] for times in own])) for i in range(n)]


def error(found: Clocks, ends: list[End]) -> int:
    """How far the ends lie apart on the common clock, at worst."""
    common = np.array([found.common(end.lanes, end.ends) for end in ends])
    return int(np.ptp(common, axis=1).max())


@given(st.integers(-10 * SECOND, 10 * SECOND), st.integers(5, 50), st.integers(0, 100))
@settings(max_examples=60, deadline=None)
def test_an_offset_of_seconds_is_found_within_the_jitter(offset: int, jitter_us: int, seed: int) -> None:
    ends = met(30, [(0, 0.0), (offset, 0.0)], jitter_us * US, seed, every=US * 500)
    found = fit_clocks(["a", "b"], ends)
    assert found.hosts[1].offset_ns == pytest.approx(offset, abs=jitter_us * US)
    assert 0 < found.residual_ns([0, 1]) <= 2 * jitter_us * US + 1
    assert found.method == ("reference", "ends")


@pytest.mark.parametrize("ppm", [-100, -20, 20, 100])
def test_a_drift_is_found_where_the_run_is_long_enough(ppm: int) -> None:
    ends = met(60, [(0, 0.0), (3 * SECOND, ppm * 1e-6)], 20 * US)
    found = fit_clocks(["a", "b"], ends)
    assert found.hosts[1].drift * 1e6 == pytest.approx(ppm, abs=3)
    assert error(found, ends) < 100 * US
    assert found.residual_ns([0, 1]) < 60 * US


def test_ends_that_agree_exactly_leave_no_residual() -> None:
    ends = met(3, [(0, 0.0), (11_560_000_000, 0.0)], 0)
    found = fit_clocks(["a", "b"], ends)
    assert found.hosts[1].offset_ns == 11_560_000_000 and found.residual_ns([0, 1]) == 0


def test_one_host_is_one_clock_whatever_its_ends_say() -> None:
    ends = met(20, [(0, 0.0), (4_000_000, 0.0)], 50 * US)
    found = fit_clocks(["a", "a"], ends)
    assert found.method == ("shared_clock", "shared_clock")
    assert found.residual_ns([0, 1]) == 0
    assert found.common(np.array([0, 1]), np.array([BASE, BASE])).tolist() == [BASE, BASE]


def test_an_outlier_does_not_move_the_offset() -> None:
    ends = met(30, [(0, 0.0), (SECOND, 0.0)], 10 * US, every=US * 500)
    ends[7].ends[1] += 5 * SECOND
    assert fit_clocks(["a", "b"], ends).hosts[1].offset_ns == pytest.approx(SECOND, abs=10 * US)


def test_hosts_without_enough_common_collectives_cannot_be_told() -> None:
    few = met(2, [(0, 0.0), (SECOND, 0.0)], 0)
    found = fit_clocks(["a", "b", "c"], few)
    assert found.method == ("reference", "not_identifiable", "not_identifiable")
    assert len({found.component(lane) for lane in range(3)}) == 3


def test_a_host_is_reached_over_another() -> None:
    first = met(10, [(0, 0.0), (SECOND, 0.0)], 5 * US, every=US * 500)
    onward = [End(np.array([1, 2]), e.ends + np.array([SECOND, 4 * SECOND])) for e in met(10, [(0, 0.0)] * 2, 5 * US)]
    found = fit_clocks(["a", "b", "c"], first + onward)
    assert found.hosts[2].offset_ns == pytest.approx(4 * SECOND, abs=20 * US)
    assert len({found.component(lane) for lane in range(3)}) == 1


def test_unnamed_hosts_whose_ends_agree_share_a_clock() -> None:
    ends = met(20, [(0, 0.0), (3 * US, 0.0), (2 * SECOND, 0.0)], 5 * US, every=US * 500)
    found = fit_clocks([None, None, None], ends)
    assert found.method == ("shared_clock", "shared_clock", "ends")
    assert found.hosts[1].offset_ns == 0 and found.hosts[2].offset_ns == pytest.approx(2 * SECOND, abs=20 * US)
