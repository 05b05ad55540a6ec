"""Microseconds as a file writes them -> whole nanoseconds, exactly."""

from __future__ import annotations

import re
from decimal import Decimal

import numpy as np
import numpy.typing as npt

from rankscope.analyzers.trace.table import Ints

Floats = npt.NDArray[np.float64]

FINE_US = float(2**43)  # below this a float64 tells apart every 0.001 us
WHOLE_US = float(2**53)  # below this a float64 tells apart every whole us
NUMBER = re.compile(r"-?\d{1,18}(?:\.\d{1,18})?", re.ASCII)
LIMIT_NS = 2**63 - 1
LIMIT_US = LIMIT_NS // 1000


class OutOfRange(ValueError):
    """A time or an id that a float64 of whole numbers, or 63 bits of nanoseconds, cannot hold."""


def from_floats(us: Floats, limit: float = WHOLE_US) -> Ints:
    """Nanoseconds of microseconds with at most three decimals, or with none from FINE_US on; OutOfRange from `limit` on.

    `rint(us * 1000)` would be 1 ns wrong for a quarter of real events: the product is rounded before `rint` sees it.
    """
    if not np.abs(us).max(initial=0.0) < limit:
        raise OutOfRange
    whole = np.floor(us)
    return whole.astype(np.int64) * 1000 + np.rint((us - whole) * 1000).astype(np.int64)


def from_number(us: object) -> int | None:
    """Nanoseconds of one decoded number, also written as text, half to even; None where it is no time or over 63 bits."""
    if isinstance(us, str) and NUMBER.fullmatch(us):
        us = Decimal(us)
    if isinstance(us, bool) or not isinstance(us, int | float | Decimal) or not -LIMIT_US < us < LIMIT_US:
        return None
    return us * 1000 if isinstance(us, int) else int((Decimal(us) * 1000).to_integral_value())
