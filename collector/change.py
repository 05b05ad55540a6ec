"""Whether the steps have become slower or faster for good, told from their wall times alone."""

from __future__ import annotations

from statistics import median
from typing import Final

REFERENCE: Final = 64  # steps that say what is usual
RECENT: Final = 16  # steps that say what is now: a checkpoint or two among them move no median
LOOK_EVERY: Final = 4  # steps; the two medians take some ten microseconds
# a change that a person would ask about
LEAST_SHARE: Final = 0.15
# times the usual spread of a step around its median; the median of 16 steps strays by a third of it
SPREADS: Final = 3.0


class Change:
    """Compares the median of the last steps with that of a reference, learnt anew after each change."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Learn anew what is usual."""
        self._reference: list[int] = []
        self._usual_ns = self._spread_ns = 0.0
        self._recent: list[int] = []
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
        now_ns = median(self._recent)
        moved = abs(now_ns - self._usual_ns)
        if moved <= LEAST_SHARE * self._usual_ns or moved <= SPREADS * self._spread_ns:
            return None
        before_ms, now_ms = self._usual_ns / 1e6, now_ns / 1e6
        self.forget()
        return f"the step's median went from {before_ms:.3g} to {now_ms:.3g} ms"

    def _learn(self, wall_ns: int) -> None:
        self._reference.append(wall_ns)
        if len(self._reference) == REFERENCE:
            self._usual_ns = median(self._reference)
            self._spread_ns = 1.4826 * median(abs(ns - self._usual_ns) for ns in self._reference)
