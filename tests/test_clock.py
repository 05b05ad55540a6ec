"""One clock: offsets and drifts of hosts found again from the ends of collectives."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankscope.analyzers.across_ranks.clock import Clocks, End
from rankscope.analyzers.across_ranks.clock_fit import fit_clocks
from rankscope.analyzers.intervals import Spans

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


def test_a_run_too_short_to_tell_its_drift_states_none_and_counts_it_as_residual() -> None:
    ends = met(20, [(0, 0.0), (3 * SECOND, 100e-6)], 5 * US, every=SECOND // 1_000)
    found = fit_clocks(["a", "b"], ends)
    assert not found.hosts[1].drift_told and abs(found.hosts[1].drift) < 100e-6
    assert error(found, ends) <= found.residual_ns([0, 1]) + 2 * 5 * US  # the ends are 5 us off themselves
    longer = fit_clocks(["a", "b"], met(20, [(0, 0.0), (3 * SECOND, 100e-6)], 5 * US))
    assert longer.hosts[1].drift_told


def test_times_far_from_the_last_common_end_are_less_sure() -> None:
    ends = met(20, [(0, 0.0), (SECOND, 0.0)], 5 * US, every=SECOND // 1_000)
    first, last = (np.array([end.ends for end in ends]).min(axis=0), np.array([end.ends for end in ends]).max(axis=0))
    near = fit_clocks(["a", "b"], ends, Spans(first, last)).residual_ns([0, 1])
    far = fit_clocks(["a", "b"], ends, Spans(first, last + 10 * SECOND)).residual_ns([0, 1])
    assert near < 12 * US
    assert 10 * SECOND * 100e-6 < far < 4 * 10 * SECOND * 100e-6  # nothing holds a drift of 100 ppm for ten seconds


def test_offsets_and_drifts_without_jitter_are_exact_to_the_nanosecond() -> None:
    clocks = [(0, 0.0), (10 * SECOND, 100e-6), (-10 * SECOND, -100e-6)]
    ends = met(50, clocks, 0, every=2 * SECOND)
    found = fit_clocks(["a", "b", "c"], ends)
    assert error(found, ends) <= 2  # times are rounded to nanoseconds, on both hosts
    assert found.residual_ns([1, 2]) <= 2


def test_a_host_that_jitters_more_makes_only_its_own_times_less_sure() -> None:
    ends = met(100, [(0, 0.0), (SECOND, 0.0), (2 * SECOND, 0.0)], 5 * US)
    for end, late in zip(ends, np.random.default_rng(5).integers(-200 * US, 200 * US, len(ends)), strict=True):
        end.ends[2] += late
    found = fit_clocks(["a", "b", "c"], ends)
    assert found.residual_ns([0, 1]) < found.residual_ns([0, 2]) / 2
    assert found.residual_ns([0, 2]) == found.residual_ns([0, 1, 2]) > 100 * US


def test_a_loop_of_hosts_that_does_not_close_widens_the_residual() -> None:
    offsets = [0, SECOND, 2 * SECOND]
    whole = met(400, [(offset, 0.0) for offset in offsets], 5 * US, every=SECOND // 100)
    straight = met(12, [(offsets[1], 0.0), (offsets[2], 0.0)], 5 * US, seed=1)
    bent = [End(np.array([1, 2]), end.ends + np.array([0, 300 * US])) for end in straight]
    closed = fit_clocks(["a", "b", "c"], whole + [End(np.array([1, 2]), end.ends) for end in straight])
    assert closed.residual_ns([1, 2]) < 10 * US
    assert fit_clocks(["a", "b", "c"], whole + bent).residual_ns([1, 2]) > 100 * US


def test_the_longer_the_chain_between_two_hosts_the_less_is_sure() -> None:
    hosts = 12
    ends = [
        End(np.array([host, host + 1]), end.ends)
        for host in range(hosts - 1)
        for end in met(12, [(host * SECOND, 0.0), ((host + 1) * SECOND, 0.0)], 20 * US, seed=host)
    ]
    found = fit_clocks([str(host) for host in range(hosts)], ends)
    assert found.residual_ns([0, 1]) < found.residual_ns([0, 6]) < found.residual_ns([0, 11])


def test_so_many_ends_are_read_as_narrow_the_fit() -> None:
    ends = met(5_000, [(0, 0.0), (SECOND, 50e-6)], 20 * US, every=SECOND // 1_000)
    found = fit_clocks(["a", "b"], ends)
    assert found.hosts[1].drift == pytest.approx(50e-6, abs=2e-6)
    assert found.residual_ns([0, 1]) < 30 * US


def test_lengths_of_one_clock_are_found_again_in_another() -> None:
    found = fit_clocks(["a", "b"], met(60, [(0, 0.0), (SECOND, 100e-6)], 0))
    lanes, own = np.array([0, 1]), np.array([SECOND, SECOND])
    assert found.common_length(lanes, own).tolist() == [SECOND, SECOND - 99_990]
    assert found.own_length(lanes, found.common_length(lanes, own)).tolist() == [SECOND, SECOND]


def test_ranks_of_one_host_that_jitter_together_count_as_the_fewer_ends_they_are() -> None:
    """By the error at the last of 8 ends, in 100 runs of 2 hosts of 8 ranks."""
    host, true = np.arange(16) // 8, BASE + np.arange(8) * SECOND // 5
    covered = 0
    for seed in range(100):
        late = np.random.default_rng(seed).normal(0, 20 * US, (8, 2)).astype(np.int64)[:, host]
        found = fit_clocks(
            [str(h) for h in host], [End(np.arange(16), t + own) for t, own in zip(true, late, strict=True)]
        )
        off = np.diff(found.common(np.array([0, 8]), np.array([true[-1], true[-1]])))
        covered += int(abs(int(off[0])) <= found.residual_ns([0, 8]))
    assert covered >= 88  # taken for 64 ends apart from each other it would be 75
