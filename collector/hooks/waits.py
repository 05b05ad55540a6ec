"""Collectives that Python waits for: the time the training thread stands in `Work.wait` and its kin.

With NCCL `Work.wait` only orders streams and returns at once; there the device events of the stages carry the time.
"""

from __future__ import annotations

import sys
from typing import Any

from rankscope.collector.hooks.patch import Function, Patch, patch
from rankscope.collector.stages import StageClock, now_ns


def install(clock: StageClock) -> list[Patch]:
    """Watch what blocks: waiting for work, for a tensor of a functional collective, and the monitored barrier."""
    inside = False

    def around(original: Function) -> Function:
        def wait(*args: Any, **kwargs: Any) -> Any:
            nonlocal inside
            if inside or not clock.mine:  # a wait within a wait counts once
                return original(*args, **kwargs)
            inside = True
            began = now_ns()
            try:
                return original(*args, **kwargs)
            finally:
                ended = now_ns()
                inside = False
                clock.blocked(ended - began)
                clock.count(ended)

        return wait

    found: list[Patch] = []
    for module, owner, name in (
        ("torch.distributed", "Work", "wait"),
        ("torch.distributed", "ProcessGroup", "monitored_barrier"),
        ("torch.distributed._functional_collectives", "", "wait_tensor"),
    ):
        place: Any = sys.modules.get(module)
        if place is not None:
            found += patch(getattr(place, owner, None) if owner else place, name, around)
    return found
