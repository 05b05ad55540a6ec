"""Backward: the time inside `torch.autograd.backward`, which `Tensor.backward` goes through, and `torch.autograd.grad`."""

from __future__ import annotations

from typing import Any

from rankscope.collector.hooks.ddp import Gradients
from rankscope.collector.hooks.patch import Function, Patch, patch
from rankscope.collector.stages import BACKWARD, DATA, FORWARD, OTHER, StageClock, now_ns


def install(clock: StageClock, torch: Any, gradients: Gradients) -> list[Patch]:
    """Watch both ways into the autograd engine."""

    def around(original: Function) -> Function:
        def backward(*args: Any, **kwargs: Any) -> Any:
            if not clock.mine or clock.current == BACKWARD:  # recomputed activations run a backward in a backward
                return original(*args, **kwargs)
            before = clock.enter_backward()
            gradients.begin()
            try:
                return original(*args, **kwargs)
            finally:
                clock.blocked(gradients.waited(now_ns()))
                # a closure given to an optimizer runs backward inside its step; else the stage of a name comes next
                clock.leave(OTHER if before in (DATA, FORWARD, OTHER) else before)

        return backward

    return [*patch(torch.autograd, "backward", around), *patch(torch.autograd, "grad", around)]
