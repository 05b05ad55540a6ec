"""Writing traces without the training process: a forked child does it, at the lowest priority.

The child has the records, and an interpreter of its own. Training pays for the fork, some 5 ms a gigabyte of resident
memory, and for each page it changes while the child lives: 1.3 ms a megabyte on a small virtual machine, so that the
first step after it is longer by what parameters and optimizer take on the host. The child runs nothing of the device and
of other threads, and it has a deadline.
"""

from __future__ import annotations

import gzip
import math
import os
import re
import signal
import time
import warnings
from collections.abc import Callable, Iterator
from typing import IO, Final

# a child that takes longer stands in a lock that another thread held at the fork; it ends itself
DEADLINE_S: Final = 120
# an elastic restart gives workers 30 s to end; what a child has not written by then is not worth the restart
LAST_WAIT_S: Final = 10.0
NICEST: Final = 19
SLACK_US: Final = 200.0  # around a window: between its clock and the trace's
_TS: Final = re.compile(r'"ts": (\d+(?:\.\d+)?)')
_BASE: Final = re.compile(r'"baseTimeNanoseconds": (\d+)')


class Child:
    """One child that writes one trace."""

    def __init__(self, write: Callable[[], None]) -> None:
        self.began = time.monotonic()
        with warnings.catch_warnings():  # of forking beside threads, from Python 3.12 on
            warnings.simplefilter("ignore", DeprecationWarning)
            self.pid = os.fork()
        if self.pid == 0:
            _work(write)

    def ended(self, wait_s: float = 0.0) -> bool | None:
        """Whether it has written its trace; None while it still works."""
        until = time.monotonic() + wait_s
        while True:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:  # the program collects all its children itself
                return True
            if pid:
                return os.waitstatus_to_exitcode(status) == 0
            if time.monotonic() >= until:
                return None
            time.sleep(0.02)

    def kill(self) -> None:
        """End it now."""
        try:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        except (ProcessLookupError, ChildProcessError):
            pass


def _work(write: Callable[[], None]) -> None:
    status = 1
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGALRM, signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        signal.alarm(DEADLINE_S)
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nothing, descriptor)
        os.nice(NICEST)
        write()
        status = 0
    finally:
        os._exit(status)  # no handler, no buffer and no thread of the parent's runs in here


def finish(raw: str, final: str, within_unix_ns: tuple[int, int] | None) -> None:
    """Compress a raw trace; with `within_unix_ns` only the events that began in that time. Raises OSError."""
    part = f"{final}.part"
    with (
        open(raw, encoding="utf-8", errors="surrogateescape") as source,
        gzip.open(part, "wt", compresslevel=1, encoding="utf-8", errors="surrogateescape") as target,
    ):
        target.writelines(source if within_unix_ns is None else _within(source, *within_unix_ns))
    os.chmod(part, 0o600)
    os.replace(part, final)


def size(path: str) -> int | None:
    """Bytes of a file; None where there is none."""
    try:
        return os.stat(path).st_size
    except OSError:
        return None


def _within(source: IO[str], begin_unix_ns: int, end_unix_ns: int) -> Iterator[str]:
    """The lines of the trace without events of other times; an event is a block from `  {` to `  }`."""
    least_us, most_us = -math.inf, math.inf
    block: list[str] = []
    for line in source:
        if least_us < 0 and (base := _BASE.search(line)):
            least_us = (begin_unix_ns - int(base[1])) / 1000 - SLACK_US
            most_us = (end_unix_ns - int(base[1])) / 1000 + SLACK_US
        if line.rstrip("\n") == "  {":
            block = [line]
        elif block:
            block.append(line)
            if line.startswith("  }"):
                text = "".join(block)
                block = []
                at = _TS.search(text)
                inside = at is None or least_us <= float(at[1]) <= most_us
                if inside or '"ph": "M"' in text or not line.startswith("  },"):
                    yield text
        else:
            yield line
    yield from block


def name(first: int, last: int) -> str:
    """The file of a window of these steps."""
    return f"steps-{first:08d}-{last:08d}.json.gz"
