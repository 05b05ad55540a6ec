"""Sets of nanoseconds against a model: Python sets of integers."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from rankscope.analyzers.intervals import (
    FIRST,
    LAST,
    Spans,
    clip,
    complement,
    contains,
    intersect,
    latest_ending,
    spans,
    subtract,
    total,
    union,
    until,
    within,
)

often = settings(max_examples=100, deadline=None)
time = st.integers(-20, 20)
pairs = st.lists(st.tuples(time, st.integers(0, 9)).map(lambda p: (p[0], p[0] + p[1])), max_size=8)
times = st.lists(time, max_size=8).map(lambda t: np.array(sorted(t), np.int64))


def model(found: Spans) -> set[int]:
    return {t for start, end in zip(found.start.tolist(), found.end.tolist(), strict=True) for t in range(start, end)}


def is_a_set(found: Spans) -> bool:
    """Sorted, disjoint, not touching, nothing empty."""
    return bool((found.start < found.end).all() and (found.start[1:] > found.end[:-1]).all())


@given(pairs, pairs)
@often
def test_union_holds_every_nanosecond_once(a: list[tuple[int, int]], b: list[tuple[int, int]]) -> None:
    found = union(spans(*a), spans(*b))
    assert model(found) == model(spans(*a)) | model(spans(*b))
    assert is_a_set(found)


@given(pairs, pairs)
@often
def test_intersection_and_difference_are_those_of_sets(a: list[tuple[int, int]], b: list[tuple[int, int]]) -> None:
    first, second = union(spans(*a)), union(spans(*b))
    assert model(intersect(first, second)) == model(first) & model(second)
    assert model(subtract(first, second)) == model(first) - model(second)
    assert total(intersect(first, second)) + total(subtract(first, second)) == total(first)


@given(pairs)
@often
def test_a_set_and_its_complement_are_all_of_time(a: list[tuple[int, int]]) -> None:
    found = union(spans(*a))
    rest = complement(found)
    assert total(intersect(found, rest)) == 0
    assert total(rest) == LAST - FIRST - total(found)
    assert model(subtract(spans((-30, 40)), rest)) == model(found)


@given(pairs, time, time)
@often
def test_clipping_keeps_what_lies_between(a: list[tuple[int, int]], start: int, end: int) -> None:
    found = union(spans(*a))
    assert model(clip(found, start, end)) == {t for t in model(found) if start <= t < end}


@given(pairs, times)
@often
def test_measures_up_to_a_time_and_between_times_are_counts(a: list[tuple[int, int]], at: np.ndarray) -> None:
    found = union(spans(*a))
    assert until(found, at).tolist() == [sum(x < t for x in model(found)) for t in at.tolist()]
    if len(at):
        between = [sum(p <= x < q for x in model(found)) for p, q in itertools.pairwise(at)]
        assert within(found, at).tolist() == between
    assert contains(found, at).tolist() == [t in model(found) for t in at.tolist()]


@given(pairs)
@often
def test_a_nanosecond_that_several_claim_goes_to_the_one_that_ends_last(a: list[tuple[int, int]]) -> None:
    claims = spans(*a)
    kept = Spans(claims.start, latest_ending(claims.start, claims.end))
    owners: dict[int, int] = {}
    for position in sorted(range(len(a)), key=lambda i: (a[i][1], i)):
        owners.update(dict.fromkeys(range(*a[position]), position))
    for position, (start, end) in enumerate(zip(kept.start.tolist(), kept.end.tolist(), strict=True)):
        assert set(range(start, end)) == {t for t, owner in owners.items() if owner == position}
