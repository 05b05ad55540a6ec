"""Whether the steps have become slower for good, told from their wall times alone."""

from __future__ import annotations

from statistics import median, quantiles
from typing import Final

REFERENCE: Final = 64  # steps that say what is usual
RECENT: Final = 16  # steps that say what is now: a checkpoint or two among them move no median
LOOK_EVERY: Final = 4  # steps; sorting 16 numbers takes a microsecond or two
# a change that a person would ask about
LEAST_SHARE: Final = 0.15
# times the distance of the usual quartiles, so that steps of two kinds are no change
SPREADS: Final = 2.0


class Change:
    """Compares the last steps with a reference, learnt anew after each change: three of four must be slower than usual."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Learn anew what is usual."""
        self._reference: list[int] = []
        self._recent: list[int] = []
        self._usual_ns = self._most_ns = 0.0
        self._seen = 0

    def step(self, wall_ns: int) -> str | None:
        """A step took so long; the sentence that says what changed, once."""
        if len(self._reference) < REFERENCE:
            self._learn(wall_ns)
            return None
        self._recent.append(wall_ns)
        self._seen += 1
        if len(self._recent) < RECENT or self._seen % LOOK_EVERY:
            return None
        del self._recent[:-RECENT]
        if sorted(self._recent)[RECENT // 4] <= self._most_ns:
            return None
        before_ms, now_ms = self._usual_ns / 1e6, median(self._recent) / 1e6
        self.forget()
        return f"the step's median went from {before_ms:.3g} to {now_ms:.3g} ms"

    def _learn(self, wall_ns: int) -> None:
        self._reference.append(wall_ns)
        if len(self._reference) == REFERENCE:
            lower, self._usual_ns, upper = quantiles(self._reference, n=4)
            self._most_ns = self._usual_ns + max(LEAST_SHARE * self._usual_ns, SPREADS * (upper - lower))
