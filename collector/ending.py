"""How a run ends when nobody calls `stop`: signals, uncaught exceptions, the interpreter's exit, forked children.

User handlers are chained and restored. A signal handler in Python runs only between two of its instructions, so a process
that stands in a collective would outlive SIGTERM; a thread of ours hears the signal too and ends it as it would have.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Final

# for the training thread to reach its handler; launchers kill for good after some 30 s
GRACE_S: Final = 1.0


class Endings:
    """Watches for the end of the process from `install` to `remove`.

    `interrupted(reason)` writes down what explains the end, from any thread; `stopped(reason)` ends the session.
    """

    def __init__(self, interrupted: Callable[[str], None], stopped: Callable[[str], None]) -> None:
        self._interrupted, self._stopped = interrupted, stopped
        self._before: Any = None  # the handler of SIGTERM before ours
        self._installed = False
        self._handled = threading.Event()
        self._pipe: tuple[int, int] | None = None
        self.error: str | None = None  # an exception that nobody caught

    def install(self) -> None:
        """Begin to watch. Signals only from the main thread."""
        atexit.register(self._exit)
        self._hook_before = sys.excepthook
        sys.excepthook = self._uncaught
        if threading.current_thread() is not threading.main_thread():
            return
        self._before = signal.getsignal(signal.SIGTERM)
        if self._before in (signal.SIG_IGN, None):  # ignored, or owned by C code
            return
        signal.signal(signal.SIGTERM, self._terminated)
        self._installed = True
        if self._before is signal.SIG_DFL:
            self._listen()

    def remove(self) -> None:
        """Watch no more, and put back what is still ours."""
        atexit.unregister(self._exit)
        if sys.excepthook == self._uncaught:
            sys.excepthook = self._hook_before
        main = threading.current_thread() is threading.main_thread()
        if self._installed and main and signal.getsignal(signal.SIGTERM) == self._terminated:
            signal.signal(signal.SIGTERM, self._before)
            self._installed = False
        if self._pipe is not None and main:
            current = signal.set_wakeup_fd(-1)
            if current not in (-1, self._pipe[1]):  # somebody else's by now
                signal.set_wakeup_fd(current, warn_on_full_buffer=False)
            os.write(self._pipe[1], b"\0")
            self._pipe = None

    def forget(self) -> None:
        """In a forked child: its signals are its own."""
        atexit.unregister(self._exit)
        if self._installed and signal.getsignal(signal.SIGTERM) == self._terminated:
            signal.signal(signal.SIGTERM, self._before)
        if self._pipe is not None:
            signal.set_wakeup_fd(-1)

    def _listen(self) -> None:
        read, write = os.pipe()
        os.set_blocking(write, False)
        taken = signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        if taken != -1:  # an event loop of the user's
            signal.set_wakeup_fd(taken, warn_on_full_buffer=False)
            os.close(read)
            os.close(write)
            return
        self._pipe = (read, write)
        threading.Thread(target=self._hear, args=(read, write), name="rankscope-signals", daemon=True).start()

    def _hear(self, read: int, write: int) -> None:
        while number := os.read(read, 1)[0]:
            ours = signal.getsignal(signal.SIGTERM) == self._terminated
            if number == signal.SIGTERM and ours and not self._handled.wait(GRACE_S):
                self._interrupted(f"signal {number}")
                ctypes.CDLL(None).signal(number, 0)  # the default; Python's own call works in the main thread only
                os.kill(os.getpid(), number)
        os.close(read)
        os.close(write)

    def _terminated(self, number: int, frame: FrameType | None) -> None:
        self._handled.set()
        self._interrupted(f"signal {number}")
        if callable(self._before):
            self._before(number, frame)
            self._handled.clear()
            return
        self._stopped(f"signal {number}")
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    def _uncaught(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        self.error = exception(error)
        self._hook_before(kind, error, trace)

    def _exit(self) -> None:
        self._stopped(self.error or "finished")


def exception(error: BaseException) -> str:
    """How a manifest says it: kind and the first words."""
    text = " ".join(str(error).split())
    return f"exception: {type(error).__name__}: {text[:200]}" if text else f"exception: {type(error).__name__}"
