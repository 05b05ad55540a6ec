"""Mixed precision: whether `GradScaler.step` left the optimizer's step out, and the loss scale after each update."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rankscope.collector.hooks.patch import Function, Patch, patch
from rankscope.collector.stages import StageClock


def install(
    clock: StageClock, torch: Any, steps: Callable[[], int], skipped: Callable[[Any], None], scaled: Callable[[Any], None]
) -> list[Patch]:
    """Watch all scalers. `steps()` counts optimizer steps so far; `scaled(tensor)` gets the scale, still on its device.

    Optimizers that take the scale themselves skip on the device, unseen; then only the falling scale tells.
    """
    scaler = getattr(getattr(torch.amp, "grad_scaler", None), "GradScaler", None)

    def around_step(original: Function) -> Function:
        def step(self: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            before = steps()
            result = original(self, optimizer, *args, **kwargs)
            if clock.mine and self.is_enabled() and steps() == before:
                skipped(optimizer)
            return result

        return step

    def around_update(original: Function) -> Function:
        def update(self: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(self, *args, **kwargs)
            scale = getattr(self, "_scale", None)
            if clock.mine and scale is not None:
                scaled(scale)
            return result

        return update

    return [*patch(scaler, "step", around_step), *patch(scaler, "update", around_update)]
