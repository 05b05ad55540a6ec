"""DDP waits for its last all-reduces in C++, unseen, at the end of backward: from the last gradient on, it only waits.

The moment the last gradient is ready comes from hooks on parameters: on all of them in the first backward passes, then
only on those that came last, because a hook costs a microsecond or two and a model has hundreds of parameters.
"""

from __future__ import annotations

import weakref
from typing import Any, Final

from rankscope.collector.hooks.patch import Function, Patch, patch
from rankscope.collector.stages import StageClock, now_ns

# passes that are listened to in full: DDP rebuilds its buckets after the first, and the order settles
LEARNING: Final = 4
# of the parameters that came last, so many of each pass keep their hook
KEPT: Final = 4


class Gradients:
    """When this rank's last gradient was ready in the present backward pass, for the DDP modules it has seen."""

    def __init__(self, clock: StageClock) -> None:
        self._clock = clock
        self._modules: weakref.WeakKeyDictionary[Any, None] = weakref.WeakKeyDictionary()
        self._handles: dict[int, Any] = {}
        self._order: list[int] = []  # parameters of this pass in the order their gradients came
        self._late: set[int] = set()
        self._passes = 0
        self._ready_ns: int | None = None
        self.synchronises = False  # whether the last forward pass announced a reduction

    def watch(self, module: Any) -> None:
        """Listen to the gradients of a DDP module, from now on."""
        if module in self._modules:
            return
        self._modules[module] = None
        self._passes = 0
        for parameter in module.parameters():
            if parameter.requires_grad and id(parameter) not in self._handles:
                self._handles[id(parameter)] = parameter.register_post_accumulate_grad_hook(self._listener(id(parameter)))

    def begin(self) -> None:
        """A backward pass begins."""
        self._ready_ns = None
        self._order = []

    def waited(self, end_ns: int) -> int:
        """Nanoseconds between the last gradient and the end of the pass; 0 where nothing was reduced."""
        if self._ready_ns is None or not self.synchronises:
            return 0
        self.synchronises = False
        if self._passes < LEARNING:
            self._learn()
        return end_ns - self._ready_ns

    def stop(self) -> None:
        """Take all hooks away."""
        for handle in self._handles.values():
            handle.remove()
        self._handles.clear()

    def _listener(self, parameter: int) -> Any:
        def ready(_: Any) -> None:
            at = now_ns()
            self._ready_ns = at
            if self._passes < LEARNING:
                self._order.append(parameter)
            self._clock.hooks += 1
            self._clock.hooks_ns += now_ns() - at

        return ready

    def _learn(self) -> None:
        self._passes += 1
        self._late.update(self._order[-KEPT:])
        if self._passes == LEARNING:
            for parameter in [p for p in self._handles if p not in self._late]:
                self._handles.pop(parameter).remove()


def install(clock: StageClock, torch: Any, gradients: Gradients) -> list[Patch]:
    """See each DDP module at its first forward pass, and count its broadcast of buffers as waiting."""
    module = getattr(getattr(torch.nn.parallel, "distributed", None), "DistributedDataParallel", None)
    compiling = getattr(getattr(torch, "compiler", None), "is_compiling", bool)

    def around_forward(original: Function) -> Function:
        def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
            if not compiling() and clock.mine:
                at = now_ns()
                gradients.watch(self)
                gradients.synchronises = bool(torch.is_grad_enabled() and self.require_backward_grad_sync)
                clock.hooks += 1
                clock.hooks_ns += now_ns() - at
            return original(self, *args, **kwargs)

        return forward

    def around_sync(original: Function) -> Function:
        def sync(*args: Any, **kwargs: Any) -> Any:
            if compiling() or not clock.mine:
                return original(*args, **kwargs)
            began = now_ns()
            try:
                return original(*args, **kwargs)
            finally:
                clock.blocked(now_ns() - began)

        return sync

    return [*patch(module, "forward", around_forward), *patch(module, "_sync_buffers", around_sync)]
