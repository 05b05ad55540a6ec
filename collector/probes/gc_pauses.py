"""Pauses of Python's garbage collector: time a step, and an event for each long one."""

from __future__ import annotations

import gc
from collections.abc import Mapping
from typing import Any, Final

from rankscope.collector.probe import Place
from rankscope.collector.stages import now_ns

DEFAULT = True
# a pause that a person would see in a step of 200 ms
LONG_NS: Final = 10_000_000


class GcPauses:
    """Adds `gc_ns` to the step's line; the collector holds the interpreter, so that any thread's pause is the step's."""

    name = "gc_pauses"

    def __init__(self) -> None:
        self._began_ns = self._sum_ns = 0

    def start(self, place: Place) -> None:
        """Listen to the collector."""
        self._place = place
        gc.callbacks.append(self._called)

    def step(self, step: int) -> None:
        """Into the line of the step."""
        if self._sum_ns:
            self._place.line["gc_ns"] = self._sum_ns
            self._sum_ns = 0

    def stop(self) -> None:
        """Listen no more."""
        if self._called in gc.callbacks:
            gc.callbacks.remove(self._called)

    def _called(self, phase: str, what: Mapping[str, Any]) -> None:
        if phase == "start":
            self._began_ns = now_ns()
        elif self._began_ns:
            pause = now_ns() - self._began_ns
            self._began_ns = 0
            self._sum_ns += pause
            if pause >= LONG_NS:
                self._place.records.event("gc", pause_ns=pause, **what)


PROBE = GcPauses
