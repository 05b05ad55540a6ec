"""A step that does not end: all Python stacks and the flight recorder's dump, once a stall, while the job still stands."""

from __future__ import annotations

import faulthandler
import os
import sys
import threading
import time
from collections import deque
from statistics import median
from typing import Final

from rankscope.collector.probe import Place
from rankscope.collector.probes import flight_recorder
from rankscope.collector.request import DUMP, Watch
from rankscope.collector.run_dir import STAGES

DEFAULT = True
# ten steps are beyond most evaluations; a dump too many, at a long checkpoint, costs a tenth of a second beside the training
STEPS: Final = 10
FLOOR_S: Final = 10.0  # who looks at a job that stands has a verdict after some seconds
# the first steps compile
FIRST_S: Final = 600.0
LEARNT: Final = 5
FRAMES: Final = 8


class Hang:
    """Watches from a thread of its own; `floor_s` is the least time without a step that counts as a stall.

    Writes `stacks-hang.txt`, `flight_recorder-hang.json` and an event `stall` that says where the training thread stands.
    The same on request: `touch RUN/request-dump`.
    """

    name = "hang"
    every_step = True

    def __init__(self, floor_s: float = FLOOR_S, first_s: float = FIRST_S) -> None:
        self._floor_s, self._first_s = float(floor_s), float(first_s)
        self._ends = threading.Event()
        self._walls_s: deque[float] = deque(maxlen=64)
        self._at = time.monotonic()
        self._stalled_since: float | None = None

    def start(self, place: Place) -> None:
        """Begin to watch."""
        self._place = place
        self._at = time.monotonic()
        self._watch = Watch(place.options.run_dir, DUMP)
        self._records_dumps = place.options.settings(flight_recorder.FlightRecorder.name, True) is not None
        watch = place.guard(self.name, self._run)
        threading.Thread(target=watch, name="rankscope-hang", daemon=True).start()

    def step(self, step: int) -> None:
        """A step has ended: less than a microsecond."""
        at = time.monotonic()
        self._walls_s.append(at - self._at)
        self._at = at
        since, self._stalled_since = self._stalled_since, None
        if since is not None:
            self._place.records.event("stall_over", of_step=step, seconds=round(at - since, 3))

    def flushed(self) -> None:
        """Look for a request."""
        if self._watch.asked() is not None:
            self._dump("request", time.monotonic() - self._at)

    def stop(self) -> None:
        """Watch no more."""
        self._ends.set()

    def _run(self) -> None:
        while not self._ends.wait(min(1.0, self._floor_s / 4)):
            passed = time.monotonic() - self._at
            if self._stalled_since is None and passed > self._limit_s():
                self._stalled_since = self._at
                self._dump("hang", passed)

    def _limit_s(self) -> float:
        walls = list(self._walls_s)
        return max(STEPS * median(walls), self._floor_s) if len(walls) >= LEARNT else max(self._first_s, self._floor_s)

    def _dump(self, reason: str, passed_s: float) -> None:
        place = self._place
        stage = STAGES[place.clock.current] if place.clock.listening else None
        place.records.event(
            "stall" if reason == "hang" else "dump", seconds=round(passed_s, 3), stage=stage, stack=_stack(place.clock.thread)
        )
        _write_stacks(place.folder.file(f"stacks-{reason}.txt"), place, passed_s)
        if self._records_dumps:
            flight_recorder.dump(place.folder, reason)


def _stack(thread: int) -> list[str]:
    """Where a thread stands, innermost first: `file:line function`."""
    frame = sys._current_frames().get(thread)
    found: list[str] = []
    while frame is not None and len(found) < FRAMES:
        code = frame.f_code
        found.append(f"{os.path.basename(code.co_filename)}:{frame.f_lineno} {code.co_name}")
        frame = frame.f_back
    return found


def _write_stacks(path: str, place: Place, passed_s: float) -> None:
    """All Python stacks of this process, the training thread's said."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        file.write(f"rank {place.rank}, step {place.step}: no step has ended for {passed_s:.0f} s\n")
        for thread in threading.enumerate():
            trains = ", which trains" if thread.ident == place.clock.thread else ""
            file.write(f"thread 0x{thread.ident or 0:016x} is {thread.name}{trains}\n")
        file.write("\n")
        file.flush()
        faulthandler.dump_traceback(file, all_threads=True)


PROBE = Hang
