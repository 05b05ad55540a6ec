"""Frontier accounting: increments add up to the step, clocks do not matter, a planted delay is charged where it is."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from rankscope.analyzers.pulse.frontier import frontier, meetings

Floats = npt.NDArray[np.float64]
MS = 1_000_000
shapes = st.tuples(st.integers(1, 5), st.integers(1, 4), st.integers(1, 7))


@st.composite
def runs(draw: st.DrawFn) -> tuple[Floats, npt.NDArray[np.bool_]]:
    shape = draw(shapes)
    local = draw(arrays(np.float64, shape, elements=st.integers(0, 10**9).map(float)))
    return local, draw(arrays(np.bool_, shape[1:]))


@given(runs())
def test_increments_are_charged_once_and_add_up_to_the_furthest_ranks_step(
    run: tuple[Floats, npt.NDArray[np.bool_]],
) -> None:
    local, meets = run
    found = frontier(local, meets)
    assert (found.increment_ns >= 0).all()
    reference = np.zeros(local.shape[1])
    for step in range(local.shape[1]):  # segments between meetings, one by one
        own = np.zeros(local.shape[0])
        for stage in range(local.shape[2]):
            own += local[:, step, stage]
            if meets[step, stage]:
                own[:] = own.max()
        reference[step] = own.max()
    assert (found.step_ns == reference).all()  # whole numbers below 2**53: exact


@given(runs())
def test_alone_is_what_the_frontier_loses_without_the_rank(run: tuple[Floats, npt.NDArray[np.bool_]]) -> None:
    local, meets = run
    whole = frontier(local, meets)
    for rank in range(len(local)):
        if len(local) > 1:
            without = frontier(np.delete(local, rank, axis=0), meets)
            assert (whole.alone_ns[rank] == whole.step_ns - without.step_ns).all()


@given(runs(), st.integers(0, 4), st.integers(0, 6), st.integers(1, 10**9))
def test_a_delay_at_the_frontier_raises_that_increment_by_itself(
    run: tuple[Floats, npt.NDArray[np.bool_]], rank: int, stage: int, delay: int
) -> None:
    local, meets = run
    rank, stage = rank % len(local), stage % local.shape[2]
    before = frontier(local, meets)
    late = local.copy()
    late[rank, :, stage] += delay
    after = frontier(late, meets)
    at = before.rank[:, stage] == rank
    assert (after.rank[at, stage] == rank).all()
    assert (after.increment_ns[at, stage] == before.increment_ns[at, stage] + delay).all()


def test_ranks_meet_where_any_of_them_waits() -> None:
    wait = np.zeros((2, 1, 3))
    wait[1, 0, 1] = 5
    assert meetings(wait).tolist() == [[False, True, False]]


def test_a_lead_is_carried_until_ranks_meet_and_not_beyond() -> None:
    local = np.array([[[10.0, 10.0, 10.0]], [[15.0, 10.0, 10.0]]])
    never = frontier(local, np.zeros((1, 3), np.bool_))
    assert never.rank.tolist() == [[1, 1, 1]] and never.increment_ns.tolist() == [[15, 10, 10]]
    met = frontier(local, np.array([[False, True, False]]))
    assert met.rank.tolist() == [[1, 1, 0]] and met.increment_ns.tolist() == [[15, 10, 10]]
    assert met.alone_ns.tolist() == [[0], [5]]


def test_two_ranks_late_in_two_stages_between_which_all_meet_cost_both() -> None:
    local = np.array([[[10.0, 30.0]], [[30.0, 10.0]], [[10.0, 10.0]]])
    assert frontier(local, np.array([[True, False]])).step_ns.tolist() == [60]
    assert frontier(local, np.array([[False, False]])).step_ns.tolist() == [40]
    assert frontier(local, np.array([[True, False]])).alone_ns.tolist() == [[20], [20], [0]]
    assert frontier(local, np.array([[False, False]])).alone_ns.tolist() == [[0], [0], [0]]
