"""A file's text, decompressed, a megabyte at a time: regular files only, told by their first bytes, bombs capped."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from types import TracebackType
from typing import Self

from isal import isal_zlib

from rankscope.analyzers.errors import UnreadableTrace

Progress = Callable[[int, int], None]  # bytes of the file read so far, bytes of the file

GZIP = b"\x1f\x8b"
CHUNK = 1 << 17  # compressed bytes at a time
FREE = 1 << 28  # decoded bytes that are never questioned
RATIO = 250  # decoded bytes a compressed byte; profiler traces stay under 30
PICKLE = "is a pickle, such as a flight-recorder dump, not a profiler trace"
FOREIGN = {
    b"\x28\xb5\x2f\xfd": "is compressed with zstd; decompress it first",
    b"PK\x03\x04": "is a zip archive; unpack it first",
    b"BZh": "is compressed with bzip2; decompress it first",
    b"\xfd7zXZ": "is compressed with xz; decompress it first",
    b"SQLite format 3": "is an SQLite database, not a profiler trace",
    b"PAR1": "is a Parquet file, not a profiler trace",
    b"\x80\x02": PICKLE,
    b"\x80\x04": PICKLE,
    b"\x80\x05": PICKLE,
    b"\xff\xfe": "is UTF-16 text, not a profiler trace",
    b"\xfe\xff": "is UTF-16 text, not a profiler trace",
}


class Text:
    """The decoded bytes of one file. `damage` says why reading ended early, in plain words; empty where it did not."""

    def __init__(self, path: str, progress: Progress | None = None) -> None:
        """Open a regular file; UnreadableTrace for anything else."""
        self.path = path
        self.damage = ""
        self.taken = 0  # bytes of the file
        self.given = 0  # decoded bytes
        self.file = open_regular(path)
        self.size = os.fstat(self.file).st_size
        self.progress = progress
        first = os.pread(self.file, 16, 0)
        for magic, reason in FOREIGN.items():
            if first.startswith(magic):
                self.close()
                raise UnreadableTrace(path, reason)
        self.gzip = isal_zlib.decompressobj(31) if first.startswith(GZIP) else None
        self.packed = b""
        self.inside = True  # a gzip member

    def readinto(self, room: memoryview) -> int:
        """Fill the front of `room`; the number of bytes, 0 at the end."""
        got = self._plain(room) if self.gzip is None else self._unpacked(room)
        self.given += got
        if self.progress is not None:
            self.progress(self.taken, self.size)
        return got

    def _plain(self, room: memoryview) -> int:
        try:
            got = os.readv(self.file, [room])
        except OSError as error:
            self.damage = f"reading stopped: {error.strerror}"
            return 0
        self.taken += got
        if not got and self.taken < self.size:
            self.damage = "the file shrank while it was read"
        return got

    def _unpacked(self, room: memoryview) -> int:
        while not self.damage:
            if not self.packed and not self._more():
                break
            try:
                text = self.gzip.decompress(self.packed, len(room))  # type: ignore[union-attr]
            except isal_zlib.error:  # type: ignore[misc]
                self.damage = "the compressed data is damaged"
                break
            self.packed = self.gzip.unconsumed_tail  # type: ignore[union-attr]
            if self.gzip.eof:  # type: ignore[union-attr]
                self._next_member()
            if text:
                room[: len(text)] = text
                if self.given + len(text) > FREE + RATIO * self.taken:
                    self.damage = f"decompressing stopped: more than {RATIO} times the size of the file"
                return len(text)
        return 0

    def _more(self) -> bool:
        try:
            self.packed = os.read(self.file, CHUNK)
        except OSError as error:
            self.damage = f"reading stopped: {error.strerror}"
            return False
        self.taken += len(self.packed)
        if not self.packed and self.inside:
            self.damage = "the compressed data ends in the middle"
        return bool(self.packed)

    def _next_member(self) -> None:
        """A gzip file may hold several members; zeros after the last are padding."""
        rest = self.gzip.unused_data.lstrip(b"\0")  # type: ignore[union-attr]
        if not rest:
            rest = os.read(self.file, CHUNK).lstrip(b"\0")
            self.taken += len(rest)
        self.packed = rest
        self.inside = bool(rest)
        if rest and not rest.startswith(GZIP[: len(rest)]):
            self.damage = "there are other bytes after the compressed data"
        self.gzip = isal_zlib.decompressobj(31)

    def close(self) -> None:
        """Give the descriptor back."""
        if self.file >= 0:
            os.close(self.file)
            self.file = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_regular(path: str) -> int:
    """A descriptor of a regular file; UnreadableTrace for FIFOs, devices, folders and links out of the folder."""
    try:
        entry = os.lstat(path)
        if stat.S_ISLNK(entry.st_mode):
            folder, target = os.path.realpath(os.path.dirname(path) or "."), os.path.realpath(path)
            if os.path.commonpath([folder, target]) != folder:
                raise UnreadableTrace(path, "is a symbolic link that leads out of its folder")
            path = target
        elif not stat.S_ISREG(entry.st_mode):
            raise UnreadableTrace(path, "is not a regular file")
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise UnreadableTrace(path, f"cannot be opened: {error.strerror}") from None
    except ValueError as error:  # a NUL in the path
        raise UnreadableTrace(path, f"cannot be opened: {error}") from None
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise UnreadableTrace(path, "is not a regular file")
    return file
