"""Numbers as text: three significant digits, a reader's unit, and never a 0 for what is unknown."""

from __future__ import annotations

import math

import pytest

from rankscope.analyzers.quantities import UNKNOWN, count, duration, rate, share, share_of, significant, size, spans
from rankscope.reports.blocks import Quantity
from rankscope.reports.format import exact, quantity
from rankscope.reports.names import shortened, visible


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0 ns"),
        (5, "5 ns"),
        (999, "999 ns"),
        (999.6, "1.00 µs"),
        (1_234, "1.23 µs"),
        (999_600, "1.00 ms"),
        (38_214_000, "38.2 ms"),
        (999_999_999, "1.00 s"),
        (90 * 10**9, "1.50 min"),
        (7200 * 10**9, "2.00 h"),
        (-4_200, "-4.20 µs"),
        (None, UNKNOWN),
        (math.nan, UNKNOWN),
    ],
)
def test_a_duration_takes_the_unit_a_reader_would_choose(ns: float | None, text: str) -> None:
    assert duration(ns) == text


def test_a_trace_of_something_is_not_nothing() -> None:
    assert (share(0), share(0.00004), share(0.0004), share(0.1814), share(1)) == (
        "0 %",
        "< 0.01 %",
        "0.04 %",
        "18.1 %",
        "100 %",
    )


def test_what_is_unknown_is_never_zero() -> None:
    assert {duration(None), size(None), rate(None), share(None), count(None), share_of(1, 0), share_of(None, 3)} == {
        UNKNOWN
    }
    units = ("ns", "bytes", "share", "count", "bytes_per_s", "gpu_hours", "money", "ppb", "factor", "text")
    assert {quantity(Quantity(None, unit)) for unit in units} == {UNKNOWN}
    assert {exact(Quantity(None, unit)) for unit in units} == {""}


def test_three_digits_survive_rounding_up() -> None:
    assert [significant(x) for x in (9.996, 99.96, 1234.5, 0.001234, 4)] == ["10.0", "100", "1230", "0.00123", "4.00"]


def test_bytes_and_rates_are_decimal() -> None:
    assert (size(25_000_000), rate(1.21e11), count(81_000_000), count(1234)) == (
        "25.0 MB",
        "121 GB/s",
        "81.0 million",
        "1,234",
    )


def test_ranks_are_told_as_ranges() -> None:
    assert spans([5, 0, 1, 2, 7, 8]) == "0-2, 5, 7, 8"
    assert spans(range(0, 40, 2), limit=3) == "0, 2, 4 and 17 more"


def test_names_cannot_move_a_cursor_or_turn_a_line_around() -> None:
    shown = visible("a\x1b[31mb\u202ec\u2028d\ud800e\u200bf\ng")
    assert shown == "a\\x1b[31mb\\u202ec\\u2028d\\ud800e\\u200bf g"
    assert visible("Grüße 世界 é") == "Grüße 世界 é"


def test_long_names_lose_their_middle() -> None:
    name = "void at::native::elementwise_kernel<4, true>(int, float)"
    short = shortened(name, 24)
    assert len(short) == 24
    assert short.startswith("void at::native") and short.endswith("float)")
    assert shortened("abc", 3) == "abc"
    assert shortened("abcdef", 1) == "…"
