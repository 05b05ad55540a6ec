"""A share with its 95 % interval, so that nobody reads more out of a few runs than is in them."""

from __future__ import annotations

from math import comb

LEVEL = 0.05


def interval(found: int, of: int) -> tuple[float, float]:
    """The exact 95 % interval of a share (Clopper and Pearson 1934): no share outside makes what was seen likelier."""
    low = 0.0 if found == 0 else _solve(lambda p: _at_least(found, of, p))
    high = 1.0 if found == of else _solve(lambda p: _at_least(found + 1, of, p), LEVEL / 2, upper=True)
    return low, high


def share_with_interval(found: int, of: int) -> str:
    """`69 of 72 = 95.8 % (88.3 to 99.1 %)`."""
    low, high = interval(found, of)
    return f"{found} of {of} = {found / of:.1%} ({low:.1%} to {high:.1%})"


def _at_least(least: int, of: int, p: float) -> float:
    return sum(comb(of, k) * p**k * (1 - p) ** (of - k) for k in range(least, of + 1))


def _solve(tail, level: float = LEVEL / 2, *, upper: bool = False) -> float:
    """The share at which the tail, which grows with it, has this probability (upper: all but this)."""
    wanted = 1 - level if upper else level
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if tail(middle) < wanted else (low, middle)
    return low
