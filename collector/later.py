"""Values that a device has not finished yet: their line of the pulse waits for them, the training thread never does."""

from __future__ import annotations

import math
import sys
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Protocol

# steps a line is kept for what it waits for; a device is never further behind its host than its queue is long
PATIENCE: Final = 16
# at the end there is no next step that could look again; nothing is synchronised, only asked
LAST_WAIT_S: Final = 1.0


class Later(Protocol):
    """Something that a line still waits for."""

    def ready(self) -> bool:
        """Whether it can be read without waiting."""
        ...

    def fill(self, line: dict[str, Any]) -> None:
        """Add it to the line."""
        ...


class LoggedTensor:
    """A logged tensor of one element: copied without blocking when it was logged, read when the copy has arrived."""

    def __init__(self, name: str, tensor: Any) -> None:
        local = getattr(tensor, "to_local", None)  # a DTensor's whole value would take a collective: this rank's is kept
        tensor = (tensor if local is None else local()).detach()
        if tensor.numel() != 1:
            raise TypeError(f"{name} has {tensor.numel()} elements; a logged value has one")
        self.name = name
        self._event: Any = None
        kind = tensor.device.type
        if kind == "cpu":
            self._copy = tensor.clone()
            return
        device: Any = getattr(sys.modules["torch"], kind, None)
        if not hasattr(device, "Event"):
            raise TypeError(f"{name} is on a device whose copies can not be waited for: {kind}")
        self._copy = tensor.to("cpu", non_blocking=True)
        self._event = device.Event()
        self._event.record()

    def ready(self) -> bool:
        """Whether the copy has arrived."""
        return self._event is None or bool(self._event.query())

    def fill(self, line: dict[str, Any]) -> None:
        """Into `log`."""
        value = self._copy.tolist()
        while isinstance(value, list) and len(value) == 1:
            value = value[0]
        if isinstance(value, int | float):
            line.setdefault("log", {})[self.name] = value


class Held:
    """Lines in order of their steps, each until what it waits for has come or its patience is over."""

    def __init__(self, write: Callable[[dict[str, Any]], None]) -> None:
        self._write = write
        self._lines: deque[tuple[dict[str, Any], list[Later]]] = deque()

    def push(self, line: dict[str, Any], later: list[Later]) -> None:
        """Take a line, and let go of those that are complete."""
        self._lines.append((line, later))
        while self._lines and (len(self._lines) > PATIENCE or self._complete()):
            self._let_go()

    def drain(self) -> None:
        """Let go of all; what has not come within a second is left out."""
        until = time.monotonic() + LAST_WAIT_S
        while self._lines:
            while not self._complete() and time.monotonic() < until:
                time.sleep(0.001)
            self._let_go()

    def _complete(self) -> bool:
        return all(value.ready() for value in self._lines[0][1])

    def _let_go(self) -> None:
        line, later = self._lines.popleft()
        for value in later:
            if value.ready():
                value.fill(line)
        self._write(line)


def unusable(value: float) -> str | None:
    """What JSON has no number for: "nan", "inf" or "-inf"."""
    return None if math.isfinite(value) else str(value)
