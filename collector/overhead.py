"""What the collector itself costs: time inside its hooks, what a call costs beside that, and its thread's time.

Above the budget it thins itself out: it listens to every second step, then to every fourth, and so on. The numbers are
powers of two, so that ranks that thinned differently still have steps in common.
"""

from __future__ import annotations

from typing import Any, Final

from rankscope.collector.hooks.patch import Function, Patch
from rankscope.collector.stages import StageClock, now_ns

# steps between two looks; the first ones hold what is done once
WINDOW: Final = 50
# times the median step's: what a step's hooks took beyond that was another process's time slice, which falls into a hook
# as into anything else
CAP: Final = 10
MOST: Final = 64  # at the least every 64th step is listened to
ROUNDS: Final = 5
TRIALS: Final = 50  # calls a round


class Overhead:
    """Keeps account of one run and says how many steps to let pass."""

    def __init__(self, clock: StageClock, budget_share: float) -> None:
        self._clock, self._budget = clock, budget_share
        self.unseen_ns = unseen_ns()
        self.every = 1
        self.start_ns = 0  # once, before the first step
        self.steps = self.wall_ns = 0
        self._before = (0, 0)  # wall and cost when the present window began
        self._window: list[int] = []  # time in hooks, by step
        self._counted_ns = 0  # of all windows before
        self._hooks_ns = 0  # the clock's, at the end of the last step

    def cost_ns(self, background_ns: int) -> int:
        """All of it so far, the start left out."""
        hooks_ns = self._counted_ns + _capped(self._window)
        return hooks_ns + self._clock.hooks * self.unseen_ns + background_ns

    def stepped(self, wall_ns: int, background_ns: int) -> bool:
        """A step has ended; whether the collector now thins itself out further."""
        self.steps += 1
        self.wall_ns += wall_ns
        self._window.append(self._clock.hooks_ns - self._hooks_ns)
        self._hooks_ns = self._clock.hooks_ns
        if self.steps % WINDOW:
            return False
        self._counted_ns += _capped(self._window)
        self._window.clear()
        cost, (wall_before, cost_before) = self.cost_ns(background_ns), self._before
        self._before = (self.wall_ns, cost)
        over = cost - cost_before > self._budget * (self.wall_ns - wall_before)
        if not over or self.every >= MOST:
            return False
        self.every *= 2
        return True

    def share(self, background_ns: int) -> float | None:
        """Of the steps' wall time; None before the first step."""
        return round(self.cost_ns(background_ns) / self.wall_ns, 6) if self.wall_ns else None

    def facts(self, background_ns: int) -> dict[str, Any]:
        """As the manifest keeps it. `step_without_ns` is an estimate: the mean step less what was measured of ours."""
        clock, steps = self._clock, max(1, self.steps)
        cost = self.cost_ns(background_ns)
        return {
            "hooks": clock.hooks,
            "hooks_ns": clock.hooks_ns,
            "hooks_counted_ns": self._counted_ns + _capped(self._window),
            "unseen_ns_per_hook": self.unseen_ns,
            "background_ns": background_ns,
            "start_ns": self.start_ns,
            "steps": self.steps,
            "step_with_ns": self.wall_ns // steps,
            "step_without_ns": max(0, self.wall_ns - cost) // steps,
            "share": self.share(background_ns),
            "budget_share": self._budget,
            "every": self.every,
        }


def _capped(steps: list[int]) -> int:
    """The sum over steps, each up to CAP times their median."""
    if not steps:
        return 0
    most = CAP * sorted(steps)[len(steps) // 2]
    return sum(min(ns, most) for ns in steps)


def unseen_ns() -> int:
    """What one hooked call costs beside the time that the hook counts itself: measured here, in less than a millisecond."""

    class Nothing:
        @staticmethod
        def call() -> None:
            return None

    clock = StageClock()
    clock.listening = True

    def around(original: Function) -> Function:
        def hooked(*args: Any, **kwargs: Any) -> Any:
            if clock.mine:
                clock.enter(0)
            return original(*args, **kwargs)

        return hooked

    bare = _call_ns(Nothing.call)
    laid = Patch(Nothing, "call", around)
    hooked = _call_ns(Nothing.call)
    laid.undo()
    return max(0, hooked - bare - clock.hooks_ns // max(1, clock.hooks))


def _call_ns(call: Function) -> int:
    """The least mean of a few rounds: a machine is disturbed upwards only."""
    means = []
    for _ in range(ROUNDS):
        began = now_ns()
        for _ in range(TRIALS):
            call()
        means.append((now_ns() - began) // TRIALS)
    return min(means)
