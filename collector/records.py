"""Lines of this rank: taken in memory, written by a thread of their own, whole, bounded, and never an error in training.

What is taken is at most a second old when it reaches the file; `kill -9` loses no more than that.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final

from rankscope.collector.run_dir import EVENTS, RankFolder, line

LOG: Final = logging.getLogger("rankscope")
FLUSH_S: Final = 1.0
PATIENCE_S: Final = 5.0  # with a disk, at the end
LAST_WORD_BYTES: Final = 8192  # given back on a full disk, so that the manifest can say how the run ended
# lines that wait for the writer: a step of 1 ms takes 1,000 a second; beyond this they are dropped and counted
MAX_WAITING: Final = 50_000


class Lines:
    """The records of one rank. `append` and `event` take about a microsecond: text is made and written elsewhere."""

    def __init__(self, folder: RankFolder, max_bytes: int, flushed: Callable[[], None]) -> None:
        self.folder, self.max_bytes = folder, max_bytes
        self.step = 0
        self.dropped = 0
        self.off: str | None = None  # why nothing is written any more
        self.background_ns = 0  # of the writer's thread
        self._flushed = flushed  # called by the writer's thread, about every second
        self._waiting: deque[tuple[str, Mapping[str, Any]]] = deque()
        self._files: dict[str, int] = {}
        self._sizes: dict[str, int] = {}
        self._writing = threading.RLock()  # a signal's handler may find this thread in the middle of it
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rankscope-records", daemon=True)

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def append(self, file: str, record: Mapping[str, Any]) -> None:
        """Take one record for this file of the rank's folder; it must not be changed afterwards."""
        if self.off is None:
            if len(self._waiting) < MAX_WAITING:
                self._waiting.append((file, record))
            else:
                self.dropped += 1

    def event(self, kind: str, **what: object) -> None:
        """Take one record for `events.jsonl`, with time and step."""
        self.append(EVENTS, {"kind": kind, "unix_ns": time.time_ns(), "step": self.step, **what})

    def files(self) -> list[str]:
        """The files that have lines."""
        return sorted(self._sizes)

    def flush(self) -> None:
        """Write what waits."""
        if not self._writing.acquire(timeout=PATIENCE_S):  # the other thread stands in a disk that does not answer
            return
        try:
            text: dict[str, list[bytes]] = {}
            while self._waiting:
                file, record = self._waiting.popleft()
                try:
                    text.setdefault(file, []).append(line(record).encode())
                except (TypeError, ValueError):  # keys that are no text, circles
                    self.dropped += 1
            for file, lines in text.items():
                if self.off is None:
                    self._write(file, lines)
        finally:
            self._writing.release()

    def close(self) -> None:
        """Write what waits and end the thread."""
        self._end.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(timeout=PATIENCE_S)
        self.flush()
        for descriptor in self._files.values():
            os.close(descriptor)
        self._files.clear()
        self.off = self.off or "closed"

    def forget(self) -> None:
        """In a forked child: nothing of the parent's is written there."""
        self.off = "forked"
        self._waiting = deque()

    def give_up(self, why: str) -> None:
        """Write no more, and say so once."""
        if self.off is None:
            self.off = why
            self._waiting.clear()
            LOG.warning("rankscope writes no more into %s: %s; training goes on", self.folder.path, why)

    def _run(self) -> None:
        while not self._end.wait(FLUSH_S):
            began = time.thread_time_ns()
            self.flush()
            self._flushed()
            self.background_ns += time.thread_time_ns() - began

    def _write(self, file: str, lines: list[bytes]) -> None:
        """Append whole lines, as many as the bound allows; half a line that did not fit on the disk is taken back."""
        size = self._sizes.get(file, 0)
        kept = b"".join(lines)
        if size + len(kept) > self.max_bytes:
            self.dropped += len(lines)
            return
        written = 0
        try:
            descriptor = self._files.get(file)
            if descriptor is None:
                flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0)
                descriptor = self._files[file] = os.open(self.folder.file(file), flags, 0o600)
            while written < len(kept):
                written += os.write(descriptor, kept[written:])
        except OSError as error:
            self.give_up(error.strerror or str(error))
            written = kept.rfind(b"\n", 0, max(0, written - LAST_WORD_BYTES)) + 1
            self._cut(file, size + written)
        self._sizes[file] = size + written

    def _cut(self, file: str, size: int) -> None:
        """End the file after its last whole line."""
        if file in self._files:
            try:
                os.ftruncate(self._files[file], size)
            except OSError as error:
                LOG.debug("%s keeps half a line: %s", file, error)
