"""Optimizer: the time inside `step` of any optimizer, and the end of a step where the user's code does not name it."""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any, Final

from rankscope.collector.stages import BACKWARD, OPTIMIZER, OTHER, StageClock

MODULE: Final = "torch.optim.optimizer"  # `torch.optim` hides it
Listener = Callable[[bool, Any], None]  # whether the step is over, and the optimizer


class _Steps:
    """torch's global hooks, once a process: listeners may come and go while torch walks its own list of hooks."""

    def __init__(self) -> None:
        self._listeners: tuple[Listener, ...] = ()
        self._handles: list[Any] = []
        self._inside = False

    def add(self, listener: Listener) -> None:
        """Call this one at the begin and the end of each step of any optimizer."""
        self._listeners = (*self._listeners, listener)
        if not self._handles and not self._inside:
            module = sys.modules[MODULE]
            self._handles = [
                module.register_optimizer_step_pre_hook(self._before),
                module.register_optimizer_step_post_hook(self._after),
            ]

    def remove(self, listener: Listener) -> None:
        """Call this one no more."""
        self._listeners = tuple(other for other in self._listeners if other != listener)
        if not self._listeners and not self._inside:
            for handle in self._handles:
                handle.remove()
            self._handles.clear()

    def _before(self, optimizer: Any, *_: Any) -> None:
        self._tell(False, optimizer)

    def _after(self, optimizer: Any, *_: Any) -> None:
        self._tell(True, optimizer)

    def _tell(self, over: bool, optimizer: Any) -> None:
        self._inside = True
        try:
            for listener in self._listeners:
                listener(over, optimizer)
        finally:
            self._inside = False


STEPS: Final = _Steps()


class Optimizers:
    """What optimizers say to the stage clock.

    `stepped(first)` is called after each step, with whether it is the first optimizer's. An optimizer that runs inside
    backward, one a parameter, is part of backward and ends no step.
    """

    def __init__(self, clock: StageClock, stepped: Callable[[bool], None]) -> None:
        self._clock, self._stepped = clock, stepped
        self._first: weakref.ref[Any] | None = None
        self.steps = 0
        STEPS.add(self._listen)

    def undo(self) -> None:
        """Listen no more."""
        STEPS.remove(self._listen)

    def skipped(self, optimizer: Any) -> None:
        """The step of this optimizer was left out by its gradient scaler."""
        self._stepped(self._is_first(optimizer))

    def _listen(self, over: bool, optimizer: Any) -> None:
        clock = self._clock
        if self._first is None and not over:
            clock.adopt()
        if threading.get_ident() != clock.thread or clock.current == BACKWARD:
            return
        if not over:
            if clock.listening:
                clock.enter(OPTIMIZER)
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
