"""Collectives that Python waits for: the time the training thread stands in `Work.wait` and its kin.

With NCCL `Work.wait` only orders streams and returns at once; there the device events of the stages carry the time.
"""

from __future__ import annotations

import sys
from typing import Any, Final

from rankscope.collector.hooks.patch import Function, Patch, patch
from rankscope.collector.stages import StageClock, now_ns

# by module, since the program may load some of them late: (class or "", function)
PLACES: Final = {
    "torch.distributed": (("Work", "wait"), ("ProcessGroup", "monitored_barrier")),
    "torch.distributed._functional_collectives": (("", "wait_tensor"),),
}


class Waits:
    """Times what blocks: waiting for work, for a tensor of a functional collective, and the monitored barrier."""

    def __init__(self, clock: StageClock) -> None:
        self._clock = clock
        self._inside = False

    def install(self, module: str) -> list[Patch]:
        """Watch one of the modules of PLACES."""
        found: list[Patch] = []
        for owner, name in PLACES[module]:
            place: Any = sys.modules[module]
            found += patch(getattr(place, owner, None) if owner else place, name, self._around)
        return found

    def _around(self, original: Function) -> Function:
        clock = self._clock

        def wait(*args: Any, **kwargs: Any) -> Any:
            if self._inside or not clock.mine:  # a wait within a wait counts once
                return original(*args, **kwargs)
            self._inside = True
            began = now_ns()
            try:
                return original(*args, **kwargs)
            finally:
                ended = now_ns()
                self._inside = False
                clock.blocked(ended - began)
                clock.count(ended)

        return wait
