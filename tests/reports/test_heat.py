"""Heat maps: a scale that does not cry wolf, and fewer cells where there are too many to see."""

from __future__ import annotations

from rankscope.reports.blocks import Heatmap
from rankscope.reports.heat import at_most, leading_rows, level, scale


def heatmap(*rows: tuple[float | None, ...], **more: object) -> Heatmap:
    names = tuple(f"rank {i}" for i in range(len(rows)))
    return Heatmap("t", "rank", "step", names, tuple(map(str, range(len(rows[0])))), rows, **more)  # type: ignore[arg-type]


def test_steps_that_hardly_differ_have_the_same_middle_shade() -> None:
    block = heatmap((100.0, 100.4), (100.2, 100.1))
    shades = {level(value, scale(block), 9) for row in block.values for value in row if value is not None}
    assert shades == {4}


def test_what_differs_spans_the_whole_scale() -> None:
    block = heatmap((100.0, 150.0))
    assert scale(block) == (100.0, 150.0)
    assert [level(v, scale(block), 9) for v in (100.0, 125.0, 150.0)] == [0, 4, 8]


def test_steps_that_do_not_count_do_not_set_the_scale() -> None:
    block = heatmap((900.0, 100.0, 150.0), faint=frozenset({0}))
    assert scale(block) == (100.0, 150.0)
    assert level(900.0, scale(block), 9) == 8


def test_an_empty_map_has_a_scale() -> None:
    assert scale(heatmap((None, None))) == (0.0, 0.0)


def test_merged_columns_keep_the_largest() -> None:
    merged = at_most(heatmap((1.0, 9.0, 2.0, None, 4.0)), 3)
    assert merged.columns == ("0-1", "2-3", "4")
    assert merged.values == ((9.0, 2.0, 4.0),)


def test_rows_that_do_not_lead_are_told_by_their_median() -> None:
    short = leading_rows(heatmap((1.0,), (50.0,), (3.0,), (None,), lead=(1,)))
    assert short.rows == ("rank 1", "3 others")
    assert short.values == ((50.0,), (2.0,))
