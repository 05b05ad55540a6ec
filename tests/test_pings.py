"""Pings and ends together: hosts joined by pings alone, parts of a run that each have a clock, and who is believed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankscope.analyzers.across_ranks.clock import Clocks, End
from rankscope.analyzers.across_ranks.clock_fit import fit_clocks
from rankscope.analyzers.across_ranks.pings import HubPings, Pings
from rankscope.analyzers.intervals import Spans

SECOND, US = 10**9, 1_000
BASE = 1_767_225_600 * SECOND
TRUE = {0: (0, 0.0), 1: (3 * SECOND, 20e-6), 2: (-5 * SECOND, -40e-6), 3: (SECOND, 0.0), 4: (0, 60e-6)}  # offset, drift


def own(lane: int, true: int) -> int:
    """What a lane's clock shows."""
    offset, drift = TRUE[lane]
    return true + offset + round(drift * (true - BASE))


def met(lanes: tuple[int, ...], n: int = 40) -> list[End]:
    """Collectives of these lanes, each its own host, a fifth of a second apart, whose ends jitter by 10 us."""
    jitter = np.random.default_rng(sum(lanes)).integers(-10 * US, 10 * US + 1, (n, len(lanes)))
    times = [[own(lane, BASE + i * SECOND // 5) for lane in lanes] for i in range(n)]
    return [End(np.array(lanes), np.array(at) + noise) for at, noise in zip(times, jitter, strict=True)]


def asked(lane: int, lie: int = 0, there: int = 40 * US, back: int = 40 * US, rounds: int = 20) -> Pings:
    """Rounds of a lane with lane 0, a minute apart, around the collectives."""
    true = [BASE + (i - rounds // 2) * 60 * SECOND for i in range(rounds)]
    ahead = [own(lane, t) - own(0, t) + (back - there) // 2 + lie for t in true]
    return Pings(lane, np.array([own(lane, t) for t in true]), np.array(ahead), np.full(rounds, (there + back) // 2))


def apart(found: Clocks, one: int, other: int, moments: int = 9) -> int:
    """How far the common times of one true moment lie apart, at worst, while the collectives ran."""
    true = [BASE + i * SECOND for i in range(moments)]
    common = [found.common(np.full(moments, lane), np.array([own(lane, t) for t in true])) for lane in (one, other)]
    return int(np.abs(common[0] - common[1]).max())


def fitted(ends: list[End], *pings: Pings, hosts: int = 5, hub: int | None = 0) -> Clocks:
    times = [[own(lane, BASE), own(lane, BASE + 8 * SECOND)] for lane in range(hosts)]
    spans = Spans(*np.array(times, np.int64).T)
    return fit_clocks([f"h{lane}" for lane in range(hosts)], ends, spans, HubPings(hub, pings))


def test_parts_of_a_run_are_joined_by_one_line_each() -> None:
    found = fitted(met((0, 1)) + met((2, 3, 4)), asked(3))
    assert found.method == ("reference", "ends", "pings", "pings", "pings")
    assert len({found.component(lane) for lane in range(5)}) == 1
    for one, other in ((0, 1), (0, 3), (1, 2), (1, 4), (2, 4)):
        assert apart(found, one, other) <= found.residual_ns([one, other])
    assert found.residual_ns([2, 4]) < 40 * US <= found.residual_ns([1, 4])  # within a part ends tell
    assert not found.contradicted


def test_without_pings_of_a_part_it_stays_apart() -> None:
    found = fitted(met((0, 1)) + met((2, 3, 4)), asked(1))
    assert found.method == ("reference", "ends", *["not_identifiable"] * 3)


@given(st.integers(0, 2000), st.integers(0, 2000), st.integers(0, 2000), st.integers(0, 2000), st.integers(1, 30))
@settings(max_examples=40, deadline=None)
def test_whatever_the_ways_the_residual_holds(a: int, b: int, c: int, d: int, rounds: int) -> None:
    ways = [(a * US + US, b * US + US), (c * US + US, d * US + US)]
    pings = [asked(lane, 0, *way, rounds) for lane, way in zip((1, 2), ways, strict=True)]
    found = fitted([], *pings, hosts=3)
    assert found.method == ("reference", "pings", "pings")
    for one, other in ((0, 1), (0, 2), (1, 2)):
        assert apart(found, one, other) <= found.residual_ns([one, other]) + 2


def test_a_hub_that_no_lane_is_on_still_joins_hosts() -> None:
    found = fitted([], asked(0), asked(1), asked(2), hosts=3, hub=None)
    assert found.method == ("reference", "pings", "pings") and len(found.host_of) == 3
    assert apart(found, 1, 2) <= found.residual_ns([1, 2])


def test_the_one_that_disagrees_with_the_others_of_its_part_is_left_out() -> None:
    found = fitted(met((2, 3, 4)), asked(2), asked(3, lie=SECOND), asked(4))
    assert [c.host for c in found.contradicted] == [3] and found.contradicted[0].by_ns == pytest.approx(SECOND, rel=1e-3)
    assert found.method == ("reference", "not_identifiable", "pings", "pings", "pings")
    assert apart(found, 0, 2) <= found.residual_ns([0, 2]) < 200 * US
    assert found.residual_ns([0, 3]) == pytest.approx(SECOND, rel=1e-3)


def test_of_two_that_disagree_neither_joins_their_part() -> None:
    found = fitted(met((3, 4)), asked(3, lie=SECOND), asked(4))
    assert [c.host for c in found.contradicted] == [3, 4]
    assert found.method == ("reference", *["not_identifiable"] * 4)
    assert found.residual_ns([3, 4]) == pytest.approx(SECOND, rel=1e-3)


def test_a_lie_within_what_the_ways_leave_open_is_no_contradiction_but_counts() -> None:
    found = fitted(met((0, 1)), asked(1, lie=30 * US), hosts=2)
    assert not found.contradicted and found.method == ("reference", "ends")
    # ends know the difference to some microseconds: jitter of 10 us, 40 of them
    assert found.residual_ns([0, 1]) == pytest.approx(30 * US, abs=6 * US)
    assert apart(found, 0, 1) < 10 * US


def test_pings_tell_the_drift_that_few_ends_do_not() -> None:
    ends = met((0, 2), 3)
    alone, found = fit_clocks(["h0", "h2"], [End(np.array([0, 1]), e.ends) for e in ends]), fitted(ends, asked(2), hosts=3)
    assert abs(alone.hosts[1].drift * 1e6 + 40) > 10  # three ends of 10 us jitter over 0.4 s: some 40 ppm
    assert found.hosts[2].drift * 1e6 == pytest.approx(-40, abs=1)


WHENEVER = st.sampled_from([0, 1, BASE, (1 << 62) - 1]) | st.integers(0, (1 << 62) - 1) | st.integers(BASE, BASE + 10**15)
ROUND = st.tuples(WHENEVER, WHENEVER, st.sampled_from([1, 1_000, 10**6, 5 * SECOND]))


@given(st.lists(st.lists(ROUND, max_size=8), min_size=1, max_size=3), WHENEVER, st.sampled_from([0, None]), st.booleans())
@settings(max_examples=150, deadline=None)
def test_no_times_bring_the_fit_down(told: list[list[tuple[int, int, int]]], at: int, hub: int | None, both: bool) -> None:
    pings = [
        Pings(lane, *np.array([(t, t - other, half) for t, other, half in rounds], np.int64).reshape(-1, 3).T)
        for lane, rounds in enumerate(told, 1)
    ]
    lanes = len(told) + 1
    ends = [End(np.array([0, 1]), np.array([at, at + i * US])) for i in range(5)] if both else []
    spans = Spans(np.full(lanes, at), np.full(lanes, at + SECOND))
    found = fit_clocks([f"h{lane}" for lane in range(lanes)], ends, spans, HubPings(hub, pings))
    assert (found.apart_ns >= 0).all() and all(np.isfinite(host.drift) for host in found.hosts)


def test_rounds_by_another_clock_than_the_traces_are_not_used() -> None:
    """Traces that count from the machine's start, pings that count from 1970."""
    spans = Spans(np.array([SECOND, SECOND]), np.array([9 * SECOND, 9 * SECOND]))
    found = fit_clocks(["h0", "h1"], [], spans, HubPings(0, [asked(1)]))
    assert found.method == ("reference", "not_identifiable")


def test_no_rounds_change_nothing() -> None:
    ends = met((0, 1, 2))
    assert fitted(ends, hosts=3) == fit_clocks(["h0", "h1", "h2"], ends)
