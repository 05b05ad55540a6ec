"""Stages of the step: installs the hooks that move the stage clock, and times the stages on the device by events."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

from rankscope.collector.hooks import backward, checkpoint, loader, optimizer, scaler, waits
from rankscope.collector.hooks.ddp import Gradients
from rankscope.collector.hooks.patch import Patch
from rankscope.collector.hooks.waits import Waits
from rankscope.collector.job import LOSS_SCALE
from rankscope.collector.later import LoggedTensor
from rankscope.collector.probe import Place
from rankscope.collector.run_dir import STAGES
from rankscope.collector.stages import BEGIN

Install = Callable[[str], list[Patch]]

DEFAULT = True
NEEDS = "torch"


class Stages:
    """Moves the clock; adds `device` to the step's line where there is a CUDA device."""

    name = "stages"

    def __init__(self) -> None:
        self._undo: list[Any] = []
        self._marks: DeviceMarks | None = None
        self._waiting: list[tuple[str, Install]] = []  # modules that the program has not loaded yet

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
            *scaler.install(
                clock, torch, lambda: optimizers.steps, guarded(self.name, skipped), guarded(self.name, scaled)
            ),
        ]
        waiting, saved = Waits(clock), guarded(self.name, place.job.saved)
        self._waiting = [(module, waiting.install) for module in waits.PLACES]
        self._waiting += [(module, partial(checkpoint.install, clock, saved)) for module in checkpoint.PLACES]
        self._install_loaded()
        self._cuda = torch.cuda
        self._mark_device()

    def step(self, step: int) -> None:
        """Hand the step's events over, and hook what the program has loaded meanwhile."""
        if self._marks is not None:
            self._place.later.append(self._marks.take())
        else:
            self._mark_device()
        if self._waiting:
            self._install_loaded()

    def stop(self) -> None:
        """Take all hooks away."""
        self._place.clock.marked = None
        for hook in reversed(self._undo):
            hook.undo()
        self._undo.clear()

    def _mark_device(self) -> None:
        """Once the program uses its device; asking never begins to."""
        if self._cuda.is_initialized():
            self._marks = DeviceMarks(self._cuda)
            self._place.clock.marked = self._place.guard(self.name, self._marks.mark)

    def _install_loaded(self) -> None:
        loaded = [(module, install) for module, install in self._waiting if module in sys.modules]
        if loaded:
            self._waiting = [entry for entry in self._waiting if entry not in loaded]
            for module, install in loaded:
                self._undo += install(module)


class DeviceMarks:
    """An event on the current stream at each end of a stage: what the device did between two is that stage's time there."""

    def __init__(self, cuda: Any) -> None:
        self._cuda = cuda
        self._free: list[Any] = []
        self._marks: list[tuple[int, Any]] = []
        self._captured = False

    def mark(self, stage: int) -> None:
        """The stage ends here. Nothing is recorded into a graph that is being captured."""
        if self._cuda.is_current_stream_capturing():
            self._captured = True
            return
        event = self._free.pop() if self._free else self._cuda.Event(enable_timing=True)
        event.record()
        self._marks.append((stage, event))

    def take(self) -> DeviceTimes:
        """The events of the step that ended; none where they do not tell of the whole step."""
        marks, self._marks = self._marks, []
        whole = bool(marks) and marks[0][0] == BEGIN and not self._captured
        self._captured = False
        return DeviceTimes(marks if whole else [], self._free)


class DeviceTimes:
    """The events of one step, until the device has passed the last."""

    def __init__(self, marks: list[tuple[int, Any]], free: list[Any]) -> None:
        self._marks, self._free = marks, free

    def ready(self) -> bool:
        """Whether the device has passed the step."""
        return not self._marks or bool(self._marks[-1][1].query())

    def fill(self, line: dict[str, Any]) -> None:
        """Into `device`: nanoseconds by stage, as fine as the events are (half a microsecond)."""
        device: dict[str, int] = {}
        for (_, before), (stage, event) in pairwise(self._marks):
            name = STAGES[stage]
            device[name] = device.get(name, 0) + round(before.elapsed_time(event) * 1e6)  # from milliseconds
        if device:
            line["device"] = device
        self._free += [event for _, event in self._marks]


PROBE = Stages
