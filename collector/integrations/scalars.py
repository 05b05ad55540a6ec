"""Figures of the pulse for a logger: taken in the step, written about once a second by the thread that writes the records.

    rankscope/step_s                  the step's wall time, seconds
    rankscope/stage_s/forward ...     each stage's
    rankscope/wait_s/backward ...     of it, blocked in collectives; absent where that is not known
    rankscope/device_s/forward ...    by device events
    rankscope/host_bytes ...          memory, as the pulse has it

They are those of the rank whose logger it is. A logger that fails is given nothing more.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping
from typing import Any, Final

from rankscope.collector.probe import Place

PREFIX: Final = "rankscope/"
# lines that wait for a logger that hangs; the oldest are left out
MAX_WAITING: Final = 10_000
PATIENCE_S: Final = 5.0  # with it, at the end
Rows = list[tuple[int, int, dict[str, float]]]  # step, UNIX nanoseconds of its begin, figures


class Scalars:
    """What loggers share; each gives `write`, and `close` if it needs one. It is a probe: `profile(...).add(it)`."""

    name = "scalars"

    def __init__(self, every: int = 1) -> None:
        if every < 1:
            raise ValueError(f"every is a number of steps, not {every}")
        self._every = every
        self._waiting: deque[Mapping[str, Any]] = deque(maxlen=MAX_WAITING)
        self._writing = threading.Lock()
        self._whole = True  # False: a write has not come back, or failed

    def write(self, rows: Rows) -> None:
        """Pass these on."""
        raise NotImplementedError

    def close(self) -> None:
        """No more will come."""

    # ---- as a probe --------------------------------------------------------------------------------------------------

    def start(self, place: Place) -> None:
        """Listen to the lines of this run."""
        self._whole = True
        self._waiting.clear()
        place.listeners.append(self._take)

    def step(self, step: int) -> None:
        """A line comes when it is complete, which may be later."""

    def flushed(self) -> None:
        """In the thread that writes."""
        if not self._writing.acquire(timeout=PATIENCE_S):
            return
        try:
            self._pass_on()
        finally:
            self._writing.release()

    def stop(self) -> None:
        """The last ones."""
        self.flushed()
        if self._whole:
            self.close()

    def _take(self, line: Mapping[str, Any]) -> None:
        if line["step"] % self._every == 0:
            self._waiting.append(line)

    def _pass_on(self) -> None:
        if not self._whole or not self._waiting:
            return
        rows = []
        while self._waiting:
            line = self._waiting.popleft()
            rows.append((line["step"], line["begin_ns"], figures(line)))
        self._whole = False
        self.write(rows)
        self._whole = True


def figures(line: Mapping[str, Any]) -> dict[str, float]:
    """The figures of a line of the pulse; what is not known is absent."""
    found: dict[str, float] = {f"{PREFIX}step_s": line["wall_ns"] / 1e9}
    for key, name in (("stages", "stage_s"), ("wait", "wait_s"), ("device", "device_s")):
        for stage, spent_ns in (line.get(key) or {}).items():
            found[f"{PREFIX}{name}/{stage}"] = spent_ns / 1e9
    for name, size in (line.get("memory") or {}).items():
        if size is not None:
            found[f"{PREFIX}{name}"] = size
    return found
