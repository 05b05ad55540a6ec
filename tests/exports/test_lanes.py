from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rankscope.reports.exports.lanes import in_order, lanes

EVENTS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 30)), max_size=40)


def placed(events: list[tuple[int, int]], nested: bool) -> list[tuple[int, int, int]]:
    """(begin, end, lane), in order."""
    start = np.array([begin for begin, _ in events], np.int64)
    end = start + np.array([dur for _, dur in events], np.int64)
    order = in_order(start, end)
    start, end = start[order], end[order]
    return list(zip(start.tolist(), end.tolist(), lanes(start, end, nested=nested).tolist(), strict=True))


def test_what_lies_inside_stays_on_its_track_and_what_only_overlaps_does_not() -> None:
    events = [(0, 10), (2, 4), (8, 6), (10, 1)]
    assert [lane for *_, lane in placed(events, nested=True)] == [0, 0, 1, 0]
    assert [lane for *_, lane in placed(events, nested=False)] == [0, 1, 1, 0]


@given(EVENTS, st.booleans())
def test_no_event_is_lost_and_in_one_lane_none_cuts_another(events: list[tuple[int, int]], nested: bool) -> None:
    found = placed(events, nested)
    assert sorted((begin, end) for begin, end, _ in found) == sorted((begin, begin + dur) for begin, dur in events)
    for i, (begin, end, lane) in enumerate(found):
        for later, finish, other in found[i + 1 :]:
            if lane == other:
                assert later >= end or (nested and finish <= end), (begin, end, later, finish)


@given(EVENTS)
def test_a_second_lane_is_opened_only_where_two_overlap(events: list[tuple[int, int]]) -> None:
    found = placed(events, nested=False)
    for begin, _, lane in found:
        if lane:
            assert any(other < lane and start <= begin < end for start, end, other in found)


def test_many_that_all_overlap_cost_no_more_than_their_number() -> None:
    n = 20_000
    start = np.arange(n)
    for nested in (False, True):
        assert sorted(lanes(start, start + 10 * n, nested=nested).tolist()) == list(range(n))
