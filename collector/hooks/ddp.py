"""DDP waits for its last all-reduces in C++, unseen, at the end of backward: from the last gradient on, it only waits.

The moment the last gradient is ready comes from hooks on parameters: on all of them in the first backward passes, then
only on those that came last, because a hook costs a microsecond or two and a model has hundreds of parameters.
"""

from __future__ import annotations

import gc
import sys
import weakref
from typing import Any, Final, cast

from rankscope.collector.hooks.patch import Function, Patch, patch
from rankscope.collector.probe import Guard
from rankscope.collector.ranks import initialised
from rankscope.collector.stages import StageClock, now_ns

# passes that are listened to in full: DDP rebuilds its buckets after the first, and the order settles
LEARNING: Final = 4
# of the parameters that came last, so many of each pass keep their hook
KEPT: Final = 4


class Gradients:
    """When this rank's last gradient was ready in the present backward pass, for all DDP modules."""

    def __init__(self, clock: StageClock, torch: Any) -> None:
        self._clock, self._torch = clock, torch
        self._modules: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()  # and their hook on forward
        self._handles: dict[int, Any] = {}
        self._order: list[int] = []  # parameters of this pass in the order their gradients came
        self._late: set[int] = set()
        self._passes = 0
        self._ready_ns: int | None = None
        self._announced = False  # a forward pass said that its gradients will be reduced

    def install(self, guard: Guard) -> list[Patch]:
        """Meet the DDP modules that there are and those that come, and count their broadcast of buffers as waiting."""
        kind = getattr(getattr(self._torch.nn.parallel, "distributed", None), "DistributedDataParallel", None)
        if kind is None:
            return []
        meet = guard("stages", self._meet)
        if initialised() is not None:
            kinds = {kind, *kind.__subclasses__()}
            for found in [thing for thing in gc.get_objects() if type(thing) in kinds]:
                meet(found)

        def around_init(original: Function) -> Function:
            def init(self: Any, *args: Any, **kwargs: Any) -> None:
                original(self, *args, **kwargs)
                meet(self)

            return init

        return [*patch(kind, "__init__", around_init), *patch(kind, "_sync_buffers", self._around_sync)]

    def begin(self) -> None:
        """A backward pass begins."""
        self._ready_ns = None
        self._order = []

    def waited(self, end_ns: int) -> int | None:
        """Nanoseconds from the last gradient to the end of the pass; 0 where nothing was reduced, None: not known."""
        announced, self._announced = self._announced, False
        if self._ready_ns is None:
            if not announced:
                return 0
            self._learn_anew()  # other parameters than before: none of those that are listened to
            return None
        if self._passes < LEARNING:
            self._learn()
        # the forward pass of a compiled module announces nothing
        reduced = announced or any(module.require_backward_grad_sync for module in self._modules)
        return end_ns - self._ready_ns if reduced else 0

    def undo(self) -> None:
        """Take all hooks away."""
        for handle in [*self._handles.values(), *self._modules.values()]:
            handle.remove()
        self._handles.clear()
        self._modules.clear()

    def _meet(self, module: Any) -> None:
        self._modules[module] = module.register_forward_pre_hook(self._forward_begins)
        self._learn_anew()

    def _forward_begins(self, module: Any, _: Any) -> None:
        if not self._torch.compiler.is_compiling() and self._torch.is_grad_enabled():
            self._announced = bool(module.require_backward_grad_sync)

    def _listener(self, parameter: int) -> Function:
        def ready(_: Any) -> None:
            at = now_ns()
            self._ready_ns = at
            if self._passes < LEARNING:
                self._order.append(parameter)
            self._clock.count(at)

        return ready

    def _learn_anew(self) -> None:
        self._passes = 0
        self._late.clear()
        for module in self._modules:
            for parameter in module.parameters():
                key = id(parameter)
                if parameter.requires_grad and key not in self._handles:
                    self._handles[key] = parameter.register_post_accumulate_grad_hook(self._listener(key))

    def _learn(self) -> None:
        self._passes += 1
        self._late.update(self._order[-KEPT:])
        if self._passes == LEARNING:
            for parameter in [key for key in self._handles if key not in self._late]:
                self._handles.pop(parameter).remove()

    def _around_sync(self, original: Function) -> Function:
        clock = self._clock

        def sync(*args: Any, **kwargs: Any) -> Any:
            if not clock.mine:
                return original(*args, **kwargs)
            began = now_ns()
            try:
                return original(*args, **kwargs)
            finally:
                clock.blocked(now_ns() - began)

        dynamo = sys.modules.get("torch._dynamo")  # a compiler would trace through the clock; it breaks off here anyway
        return sync if dynamo is None else cast(Function, dynamo.disable(sync))
