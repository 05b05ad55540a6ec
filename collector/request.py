"""A file dropped into the run directory asks the running job for something: `touch RUN/request-window`.

Each rank looks about once a second, off the training thread, and answers each touch once. Only a regular file of the
same user counts; what was there before the run began asks for nothing. Words in the file say how, such as `steps=5 stacks`.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from typing import Final

WINDOW: Final = "window"  # of the profiler; `steps=N`, `stacks`, `memory`
DUMP: Final = "dump"  # of the flight recorder and of all Python stacks
MEMORY: Final = "memory"  # snapshot of the device's memory
KINDS: Final = (WINDOW, DUMP, MEMORY)
MOST_BYTES: Final = 1000
FLAGS: Final = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked for, and when by the file's own time."""

    asked_ns: int
    words: tuple[str, ...] = ()

    def number(self, name: str) -> int | None:
        """The N of `name=N`; None where it is not there or no small number."""
        texts = [word.removeprefix(f"{name}=") for word in self.words if word.startswith(f"{name}=")]
        return int(texts[-1]) if texts and texts[-1].isascii() and texts[-1].isdigit() and len(texts[-1]) < 7 else None


class Watch:
    """Looks for requests of one kind in one run directory."""

    def __init__(self, run_dir: str, kind: str) -> None:
        self.path = request_path(run_dir, kind)
        found = self._touched()
        self._answered_ns = 0 if found is None else found

    def asked(self) -> Request | None:
        """The request that came since the last look."""
        touched = self._touched()
        if touched is None or touched <= self._answered_ns:
            return None
        self._answered_ns = touched
        return Request(touched, self._words())

    def _touched(self) -> int | None:
        try:
            found = os.lstat(self.path)
        except OSError:
            return None
        own = stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid()
        return found.st_mtime_ns if own else None

    def _words(self) -> tuple[str, ...]:
        try:
            with open(os.open(self.path, FLAGS), "rb") as file:
                return tuple(file.read(MOST_BYTES).decode("ascii", "ignore").split())
        except OSError:
            return ()


def request_path(run_dir: str, kind: str) -> str:
    """The file that asks for one of KINDS."""
    return os.path.join(run_dir, f"request-{kind}")
