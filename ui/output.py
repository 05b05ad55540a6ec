"""Where text goes: reports to standard output or a file, messages to standard error, nothing half written."""

from __future__ import annotations

import os
import re
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import TYPE_CHECKING, BinaryIO, Self, TextIO

from rankscope.analyzers.errors import RankscopeError

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
PIPE_WIDTH = 100


class Unwritable(RankscopeError):
    """The report could not be written."""


def say(message: str) -> None:
    """One message to standard error; control characters in it are shown, not obeyed."""
    plain = _CONTROL.sub(lambda found: ascii(found[0])[1:-1], message)
    with suppress(OSError):  # nobody listens
        if sys.stderr is not None:  # closed by the caller: None, whatever its type says
            print(f"rankscope: {plain}", file=_forgiving(sys.stderr), flush=True)


def put(text: str, path: str | None) -> None:
    """The report to a file, whole or not at all, or to standard output (`path` None or `-`). Raises Unwritable."""
    if path is None or path == "-":
        _to_stdout(text)
    else:
        try:
            _to_file(text.encode("utf-8", "backslashreplace"), os.path.realpath(path))
        except OSError as error:
            raise Unwritable(f"{path} cannot be written: {error.strerror or error}") from error


def colour() -> bool:
    """Whether standard output is a terminal that wants colour."""
    wanted = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return wanted and sys.stdout is not None and sys.stdout.isatty()


def draws(glyphs: str) -> bool:
    """Whether standard output's encoding has all these characters."""
    try:
        glyphs.encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError, AttributeError):  # the last: it is closed
        return False
    return True


def width() -> int:
    """Columns of the terminal; of a pipe what COLUMNS says, else a readable width."""
    return max(40, shutil.get_terminal_size((PIPE_WIDTH, 24)).columns)


class Bar:
    """A progress bar on standard error, only when it is a terminal and only once there is something to wait for."""

    def __init__(self) -> None:
        self.bar: Progress | None = None
        self.task: TaskID | None = None

    def __enter__(self) -> Self:
        return self

    def __call__(self, done: int, total: int) -> None:
        """Show that `done` of `total` bytes are read."""
        if self.bar is None:
            if sys.stderr is None or not sys.stderr.isatty():
                return
            from rich.console import Console
            from rich.progress import Progress

            self.bar = Progress(console=Console(stderr=True), transient=True)
            self.task = self.bar.add_task("reading", total=total)
            self.bar.start()
        if self.task is not None:
            self.bar.update(self.task, completed=done, total=total)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.bar is not None:
            self.bar.stop()


def _to_stdout(text: str) -> None:
    if sys.stdout is None:
        raise Unwritable("standard output is closed; -o FILE writes elsewhere")
    try:
        _forgiving(sys.stdout).write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        _silence()  # `| head` has seen enough
    except OSError as error:
        _silence()
        raise Unwritable(f"standard output cannot be written: {error.strerror}") from error


def _silence() -> None:
    """Let the interpreter's last flush go nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _forgiving(stream: TextIO) -> TextIO:
    """Characters that the stream's encoding lacks are escaped instead of ending the program."""
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="backslashreplace")
    return stream


def _to_file(content: bytes, path: str) -> None:
    with _replacing(path) as file:
        file.write(content)


@contextmanager
def whole_file(path: str) -> Iterator[BinaryIO]:
    """A file to write bytes to, there whole or not at all. Raises Unwritable."""
    try:
        with _replacing(os.path.realpath(path)) as file:
            yield file
    except OSError as error:
        raise Unwritable(f"{path} cannot be written: {error.strerror or error}") from error


@contextmanager
def _replacing(path: str) -> Iterator[BinaryIO]:
    if os.path.lexists(path) and not stat.S_ISREG(os.lstat(path).st_mode):
        with open(path, "wb") as device:  # a device or a pipe is written to, not replaced; a folder refuses
            yield device
        return
    descriptor, unfinished = tempfile.mkstemp(dir=os.path.dirname(path) or ".", prefix=".rankscope-")
    try:
        with open(descriptor, "wb") as file:
            yield file
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(unfinished, 0o666 & ~mask)
        os.replace(unfinished, path)
    except BaseException:
        os.unlink(unfinished)
        raise
