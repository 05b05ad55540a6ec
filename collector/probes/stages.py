"""Stages of the step: installs the hooks that move the stage clock, and times the stages on the device by events."""

from __future__ import annotations

import sys
from typing import Any

from rankscope.collector.hooks import backward, checkpoint, loader, optimizer, scaler, waits
from rankscope.collector.hooks.ddp import Gradients
from rankscope.collector.job import LOSS_SCALE
from rankscope.collector.later import LoggedTensor
from rankscope.collector.probe import Place
from rankscope.collector.run_dir import STAGES

DEFAULT = True
NEEDS = "torch"


class Stages:
    """Moves the clock; adds `device` to the step's line where there is a CUDA device."""

    name = "stages"

    def __init__(self) -> None:
        self._undo: list[Any] = []
        self._marks: DeviceMarks | None = None
        self._waiting = dict(checkpoint.PLACES)  # modules that the program has not loaded yet

    def start(self, place: Place) -> None:
        """Install all hooks."""
        self._place = place
        clock, torch = place.clock, sys.modules["torch"]
        gradients = Gradients(clock, torch)
        optimizers = optimizer.Optimizers(clock, place.optimizer_stepped)

        def skipped(of: Any) -> None:
            place.job.skipped()
            optimizers.skipped(of)

        def scaled(scale: Any) -> None:
            place.later.append(LoggedTensor(LOSS_SCALE, scale))

        guarded = place.guard
        self._undo = [
            optimizers,
            *loader.install(clock, torch),
            gradients,
            *gradients.install(guarded),
            *backward.install(clock, torch, gradients),
            *waits.install(clock),
            *scaler.install(
                clock, torch, lambda: optimizers.steps, guarded(self.name, skipped), guarded(self.name, scaled)
            ),
        ]
        self._install_loaded()
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            self._marks = DeviceMarks(torch.cuda)
            clock.marked = guarded(self.name, self._marks.mark)

    def step(self, step: int) -> None:
        """Hand the step's events over, and hook what the program has loaded meanwhile."""
        if self._marks is not None:
            self._place.later.append(self._marks.take())
        if self._waiting:
            self._install_loaded()

    def stop(self) -> None:
        """Take all hooks away."""
        self._place.clock.marked = None
        for hook in reversed(self._undo):
            hook.undo()
        self._undo.clear()

    def _install_loaded(self) -> None:
        for module in [name for name in self._waiting if name in sys.modules]:
            del self._waiting[module]
            saved = self._place.guard(self.name, self._place.job.saved)
            self._undo += checkpoint.install(self._place.clock, module, saved)


class DeviceMarks:
    """An event on the current stream at each end of a stage: what the device did between two is that stage's time there."""

    def __init__(self, cuda: Any) -> None:
        self._cuda = cuda
        self._free: list[Any] = []
        self._marks: list[tuple[int, Any]] = []
        self._last = self._event()

    def mark(self, stage: int) -> None:
        """The stage ends here. Nothing is recorded into a graph that is being captured."""
        if not self._cuda.is_current_stream_capturing():
            self._marks.append((stage, self._event()))

    def take(self) -> DeviceTimes:
        """The events of the step that ended."""
        marks, self._marks = self._marks, []
        begin = self._last
        if marks:
            self._last = marks[-1][1]
        return DeviceTimes(begin, marks, self._free)

    def _event(self) -> Any:
        event = self._free.pop() if self._free else self._cuda.Event(enable_timing=True)
        event.record()
        return event


class DeviceTimes:
    """The events of one step, until the device has passed the last."""

    def __init__(self, begin: Any, marks: list[tuple[int, Any]], free: list[Any]) -> None:
        self._begin, self._marks, self._free = begin, marks, free

    def ready(self) -> bool:
        """Whether the device has passed the step."""
        return not self._marks or bool(self._marks[-1][1].query())

    def fill(self, line: dict[str, Any]) -> None:
        """Into `device`: nanoseconds by stage, as fine as the events are (half a microsecond)."""
        device: dict[str, int] = {}
        before = self._begin
        for stage, event in self._marks:
            name = STAGES[stage]
            device[name] = device.get(name, 0) + round(before.elapsed_time(event) * 1e6)  # from milliseconds
            self._free.append(before)
            before = event
        if device:
            line["device"] = device


PROBE = Stages
