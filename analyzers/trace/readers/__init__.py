"""Readers, one module per format; what a file holds decides which reads it, never its name."""

from __future__ import annotations

import os
from typing import Protocol

from rankscope.analyzers.errors import UnreadableTrace
from rankscope.analyzers.trace.model import Trace
from rankscope.analyzers.trace.readers import ascend, foreign, kineto, merged, rocprofiler
from rankscope.analyzers.trace.readers.heads import Head
from rankscope.analyzers.trace.readers.opening import Progress, Text
from rankscope.analyzers.trace.readers.parts import file_of


class Reader(Protocol):
    """What a module of this package offers."""

    def sniff(self, head: bytes, name: str) -> bool:
        """Whether a file that begins so may be this reader's."""
        ...

    def heads_of(self, path: str) -> list[Head]:
        """What the file says early on of each rank in it; UnreadableTrace for what is no trace."""
        ...

    def read(self, path: str, *, progress: Progress | None = None) -> Trace:
        """Everything the file recorded; UnreadableTrace where that is nothing."""
        ...


READERS: tuple[Reader, ...] = (rocprofiler, ascend, merged, kineto)  # kineto takes what is left
SNIFFED = 1 << 16  # decoded bytes

__all__ = ["Head", "file_of", "head", "heads", "read"]


def read(path: str | os.PathLike[str], *, progress: Progress | None = None) -> Trace:
    """Everything one file recorded. `progress(bytes read, bytes of the file)` is called as it goes.

    Raises UnreadableTrace with a plain reason for what is no trace, or holds no timed events.
    """
    where = os.fspath(path)
    file = file_of(where)
    return _reader(file, _front(file)).read(where, progress=progress)


def head(path: str | os.PathLike[str]) -> Head:
    """What the first megabyte says of a file, None for what lies further back; UnreadableTrace for what is no trace."""
    return heads(path)[0]


def heads(path: str | os.PathLike[str]) -> list[Head]:
    """The same, one a rank: where a file holds several, `Head.path` is the part of it that `read` reads."""
    where = os.fspath(path)
    return _reader(where, _front(where)).heads_of(where)


def _reader(path: str, front: bytes) -> Reader:
    for reader in READERS:
        if reader.sniff(front, os.path.basename(path)):
            return reader
    raise UnreadableTrace(path, foreign.why_not(front) or "is not a profiler trace")


def _front(path: str) -> bytes:
    with Text(path) as text:
        front = bytearray(SNIFFED)
        with memoryview(front) as view:
            got = filled = text.readinto(view)
            while got and filled < SNIFFED:
                got = text.readinto(view[filled:])
                filled += got
        if not filled and text.damage:
            raise UnreadableTrace(path, text.damage)
        return bytes(front[:filled])
