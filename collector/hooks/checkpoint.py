"""Checkpoint: the time the training thread spends in `torch.save` and in saving or loading a distributed checkpoint."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any, Final

from rankscope.collector.hooks.patch import Function, Patch, patch
from rankscope.collector.stages import CHECKPOINT, StageClock, now_ns

PLACES: Final = {
    "torch": ("save",),
    "torch.distributed.checkpoint": ("save", "async_save", "load"),
    "torch.distributed.checkpoint.state_dict_saver": ("save", "async_save"),
    "torch.distributed.checkpoint.state_dict_loader": ("load",),
}


def install(clock: StageClock, saved: Callable[[str, int], None], module: str) -> list[Patch]:
    """Watch one of the modules of PLACES; `saved(what, ns)` is called after each checkpoint."""
    found: list[Patch] = []
    for name in PLACES[module]:
        found += patch(sys.modules[module], name, functools.partial(_around, clock, saved, name))
    return found


def _around(clock: StageClock, saved: Callable[[str, int], None], name: str, original: Function) -> Function:
    def checkpoint(*args: Any, **kwargs: Any) -> Any:
        if not clock.mine or clock.current == CHECKPOINT:
            return original(*args, **kwargs)
        before = clock.enter(CHECKPOINT)
        began = now_ns()
        try:
            result = original(*args, **kwargs)
            saved(name, now_ns() - began)
            return result
        finally:
            clock.leave(before)

    return checkpoint
