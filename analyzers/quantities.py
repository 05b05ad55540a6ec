"""A number and its unit as text: three significant digits, a reader's unit, never a 0 for what is unknown.

The messages of rules and every report use these words, so that one figure reads the same everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

UNKNOWN = "n/a"
"""Shown where a figure is None: it was not recorded or cannot be told."""

_DURATIONS = ((1, "ns"), (10**3, "µs"), (10**6, "ms"), (10**9, "s"), (60 * 10**9, "min"), (3600 * 10**9, "h"))
_BYTES = ((1, "B"), (10**3, "kB"), (10**6, "MB"), (10**9, "GB"), (10**12, "TB"), (10**15, "PB"))
_COUNTS = ((10**6, "million"), (10**9, "billion"))


def significant(value: float, digits: int = 3) -> str:
    """`value` with that many significant digits, no exponent: 1234.5 -> 1230, 12.345 -> 12.3, 4.0 -> 4.00."""
    if value == 0:
        return "0"
    places = digits - 1 - math.floor(math.log10(abs(value)))
    rounded = round(value, places)
    if rounded and math.floor(math.log10(abs(rounded))) > digits - 1 - places:  # 9.996 -> 10.0, not 10.00
        places -= 1
    return f"{rounded:.{max(places, 0)}f}"


def _scaled(value: float, ladder: Sequence[tuple[int, str]]) -> str:
    if not math.isfinite(value):
        return UNKNOWN
    size = abs(value)
    if size == 0:
        return f"0 {ladder[0][1]}"
    step, unit = ladder[0]
    for step_, unit_ in ladder[1:]:
        if float(significant(size / step_)) < 1:  # 999.6 us is 1.00 ms
            break
        step, unit = step_, unit_
    if step == 1 and float(value).is_integer():
        return f"{int(value)} {unit}"
    return f"{significant(value / step)} {unit}"


def duration(ns: float | None) -> str:
    """Nanoseconds as the reader's unit: 38_214_000 -> 38.2 ms."""
    return UNKNOWN if ns is None else _scaled(ns, _DURATIONS)


def exact_ns(ns: float | None) -> str:
    """All digits of a time, for tooltips: 38_214_000 -> 38,214,000 ns."""
    return UNKNOWN if ns is None else f"{round(ns):,} ns"


def size(n_bytes: float | None) -> str:
    """Bytes in decimal units: 25_000_000 -> 25.0 MB."""
    return UNKNOWN if n_bytes is None else _scaled(n_bytes, _BYTES)


def rate(bytes_per_s: float | None) -> str:
    """Bytes per second: 1.21e11 -> 121 GB/s."""
    return UNKNOWN if bytes_per_s is None else f"{_scaled(bytes_per_s, _BYTES)}/s"


def share(of_one: float | None) -> str:
    """A share 0..1 as per cent: 0.1814 -> 18.1 %; a trace of something is < 0.01 %, never 0 %."""
    if of_one is None or not math.isfinite(of_one):
        return UNKNOWN
    percent = of_one * 100
    if percent == 0:
        return "0 %"
    if abs(percent) < 0.01:
        return "< 0.01 %"
    return f"{significant(percent) if abs(percent) >= 1 else f'{percent:.2f}'} %"


def share_of(part: float | None, whole: float | None) -> str:
    """`part` as a share of `whole`; unknown when either is, or when the whole is 0."""
    return UNKNOWN if part is None or not whole else share(part / whole)


def count(n: float | None) -> str:
    """A number of things: 1234 -> 1,234; 8_100_000 -> 8.10 million."""
    if n is None or not math.isfinite(n):
        return UNKNOWN
    if abs(n) >= 10**7:
        step, unit = _COUNTS[1] if abs(n) >= 10**9 else _COUNTS[0]
        return f"{significant(n / step)} {unit}"
    return f"{int(n):,}" if float(n).is_integer() else significant(n)


def plural(n: int, noun: str, many: str | None = None) -> str:
    """`1 rank`, `8 ranks`, `2 analyses`."""
    return f"{count(n)} {noun if n == 1 else many or noun + 's'}"


def ranks(numbers: Iterable[int]) -> str:
    """`rank 5`, or `ranks 0-2, 5`."""
    some = sorted(set(numbers))
    return f"rank{'' if len(some) == 1 else 's'} {spans(some)}"


def spans(numbers: Iterable[int], limit: int = 8) -> str:
    """Numbers as ranges: [0, 1, 2, 5] -> 0-2, 5. More than `limit` ranges end in how many numbers are left."""
    ordered = sorted(set(numbers))
    ranges: list[tuple[int, int]] = []
    for number in ordered:
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    words = [str(a) if a == b else f"{a}, {b}" if b == a + 1 else f"{a}-{b}" for a, b in ranges[:limit]]
    left = sum(b - a + 1 for a, b in ranges[limit:])
    return ", ".join(words) + (f" and {left} more" if left else "")
