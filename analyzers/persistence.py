"""Whether an effect belongs to a rank, or came and went: the sign test every finding about a rank has to pass."""

from __future__ import annotations

from enum import Enum
from math import ceil, comb, log2
from typing import Final

import numpy as np
import numpy.typing as npt

LEVEL: Final = 0.01  # one-sided, over the usable steps
LARGE: Final = 0.10  # of the step, in every step seen: enough where the steps are too few for the test


class Persistence(Enum):
    """How well an effect persists."""

    NONE = "comes and goes"
    TOO_FEW = "the steps are too few to tell"
    LARGE = "large in every step seen, too few for the sign test"
    TESTED = "in so many steps that chance is ruled out"


def steps_needed(candidates: int) -> int:
    """The least number of steps on which the sign test can pass."""
    return ceil(log2(max(candidates, 1) / LEVEL))


def persistence(effect_ns: npt.NDArray[np.float64], step_ns: float, candidates: int) -> Persistence:
    """One-sided sign test of `effect_ns > 0` over steps at 1 %, corrected for the number of candidates (Bonferroni).

    With one candidate 7 of 7 steps are the least that pass. On fewer steps than could pass: above 10 % of the step in
    every one.
    """
    seen = effect_ns[~np.isnan(effect_ns)]
    n, positive = len(seen), int((seen > 0).sum())
    if not n:
        return Persistence.NONE
    if n < steps_needed(candidates):
        return Persistence.LARGE if (seen > LARGE * step_ns).all() else Persistence.TOO_FEW
    tail = sum(comb(n, k) for k in range(positive, n + 1)) / 2**n
    return Persistence.TESTED if tail * max(candidates, 1) <= LEVEL else Persistence.NONE
