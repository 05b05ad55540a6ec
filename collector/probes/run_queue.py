"""How long the training thread was ready to run and had no processor, by stage: what others on its cores took from it.

Without it a rank that was pushed aside for a while looks late. Read from Linux's schedstat at each end of a stage: some
two microseconds on an idle host.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress

from rankscope.collector.probe import Place, Unavailable

DEFAULT = True


class RunQueue:
    """Gives the stage clock the thread's time in the run queue."""

    name = "run_queue"

    def __init__(self) -> None:
        self._file = -1
        self._thread = self._seen_ns = 0

    def start(self, place: Place) -> None:
        """Open the thread's figures; Unavailable where the system keeps none."""
        self._place = place
        self._open()
        place.clock.queue_ns = self._queued_ns

    def step(self, step: int) -> None:
        """Follow the clock to another thread, where it has gone to one."""
        if self._thread != self._place.clock.thread and threading.get_ident() == self._place.clock.thread:
            self._place.clock.queue_ns = None
            os.close(self._file)
            self._open()
            self._place.clock.queue_ns = self._queued_ns

    def stop(self) -> None:
        """Close."""
        self._place.clock.queue_ns = None
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _open(self) -> None:
        self._file, self._thread = -1, threading.get_ident()
        try:
            self._file = os.open(f"/proc/self/task/{threading.get_native_id()}/schedstat", os.O_RDONLY)
            self._seen_ns = self._read_ns()
        except (OSError, ValueError, IndexError) as error:
            raise Unavailable("this system does not say how long a thread waits for a processor") from error

    def _read_ns(self) -> int:
        return int(os.pread(self._file, 96, 0).split()[1])

    def _queued_ns(self) -> int:
        """Within the hooks of training, where nothing may fail: the thread may have ended."""
        with suppress(OSError, ValueError, IndexError):
            self._seen_ns = self._read_ns()
        return self._seen_ns


PROBE = RunQueue
