"""Figures of the pulse for a logger: taken in the step, written about once a second by a thread of the logger's own.

    rankscope/step_s                  the step's wall time, seconds
    rankscope/stage_s/forward ...     each stage's
    rankscope/wait_s/backward ...     of it, blocked in collectives; absent where that is not known
    rankscope/device_s/forward ...    by device events
    rankscope/host_bytes ...          memory, as the pulse has it

They are those of the rank whose logger it is. A logger that fails is given nothing more. One whose server hangs holds up
neither training nor the records, and the end for PATIENCE_S at most.
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
EVERY_S: Final = 1.0  # between two writes: one request to a server for all steps of that time
PATIENCE_S: Final = 5.0  # at the end: launchers kill what takes much longer
Rows = list[tuple[int, int, dict[str, float]]]  # step, UNIX nanoseconds of its begin, figures


class Scalars:
    """What loggers share; each gives `write`, and `close` if it needs one. It is a probe: `profile(...).add(it)`."""

    name = "scalars"

    def __init__(self, every: int = 1) -> None:
        if every < 1:
            raise ValueError(f"every is a number of steps, not {every}")
        self._every = every
        self._waiting: deque[Mapping[str, Any]] = deque(maxlen=MAX_WAITING)
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None

    def write(self, rows: Rows) -> None:
        """Pass these on."""
        raise NotImplementedError

    def close(self) -> None:
        """No more will come."""

    # ---- as a probe --------------------------------------------------------------------------------------------------

    def start(self, place: Place) -> None:
        """Listen to the lines of this run."""
        self._waiting.clear()
        self._ending = threading.Event()
        # a daemon: a server that never answers does not keep the process alive
        self._thread = threading.Thread(
            target=place.guard(self.name, self._work),
            args=(self._ending,),
            name=f"rankscope {self.name}",
            daemon=True,
        )
        self._thread.start()
        place.listeners.append(self._take)

    def step(self, step: int) -> None:
        """A line comes when it is complete, which may be later."""

    def stop(self) -> None:
        """The last ones. Raises TimeoutError where the logger has not taken them in time."""
        self._ending.set()
        if self._thread is not None:
            self._thread.join(PATIENCE_S)
            if self._thread.is_alive():
                raise TimeoutError(f"its last write took more than {PATIENCE_S:g} s; figures may be missing there")

    def _take(self, line: Mapping[str, Any]) -> None:
        if line["step"] % self._every == 0:
            self._waiting.append(line)

    def _work(self, ending: threading.Event) -> None:
        while not ending.wait(EVERY_S):
            self._pass_on()
        self._pass_on()
        self.close()

    def _pass_on(self) -> None:
        rows = []
        while self._waiting:
            line = self._waiting.popleft()
            rows.append((line["step"], line["begin_ns"], figures(line)))
        if rows:
            self.write(rows)


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
