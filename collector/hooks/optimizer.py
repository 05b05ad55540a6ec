"""Optimizer: the time inside `step` of any optimizer, and the end of a step where the user's code does not name it."""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

from rankscope.collector.stages import BACKWARD, OPTIMIZER, OTHER, StageClock


class Optimizers:
    """All optimizers of the process, through torch's global hooks.

    `stepped(first)` is called after each step, with whether it is the first optimizer's. An optimizer that runs inside
    backward, one a parameter, is part of backward and ends no step.
    """

    def __init__(self, clock: StageClock, stepped: Callable[[bool], None]) -> None:
        self._clock, self._stepped = clock, stepped
        self._first: weakref.ref[Any] | None = None
        self.steps = 0
        module = sys.modules["torch.optim.optimizer"]  # torch.optim hides it
        self._handles = [
            module.register_optimizer_step_pre_hook(self._before),
            module.register_optimizer_step_post_hook(self._after),
        ]

    def undo(self) -> None:
        """Take the hooks away."""
        for handle in self._handles:
            handle.remove()

    def skipped(self, optimizer: Any) -> None:
        """The step of this optimizer was left out by its gradient scaler."""
        self._stepped(self._is_first(optimizer))

    def _before(self, optimizer: Any, *_: Any) -> None:
        clock = self._clock
        if clock.mine and clock.current != BACKWARD:
            clock.enter(OPTIMIZER)

    def _after(self, optimizer: Any, *_: Any) -> None:
        clock = self._clock
        if threading.get_ident() != clock.thread or clock.current == BACKWARD:
            return
        self.steps += 1
        if clock.listening:
            clock.leave(OTHER)
        elif self._first is None:  # a deaf clock can not tell a step inside backward from any other
            return
        self._stepped(self._is_first(optimizer))

    def _is_first(self, optimizer: Any) -> bool:
        if self._first is None or self._first() is None:
            self._first = weakref.ref(optimizer)
        return self._first() is optimizer
