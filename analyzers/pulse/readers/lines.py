"""Whole lines of a file that is appended to: bounded in length and number; a last line without its end is no record."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass

from rankscope.analyzers.quantities import plural, size

MOST_LINE_BYTES = 1 << 16  # a pulse line has some hundred; one with a thousand logged values still fits
MOST_FILE_BYTES = 1 << 30  # 100,000 steps are about 50 MB
_PIECE = 1 << 22


@dataclass(slots=True)
class Lines:
    """What reading one file met."""

    path: str
    damaged: int = 0  # lines that are no record
    cut: bool = False  # the last line has no end
    too_long: int = 0
    left_out_bytes: int = 0  # behind the most that is read
    error: str = ""
    _inside_long: bool = False

    def pieces(self) -> Iterator[bytes]:
        """Whole lines, many at a time. A file that cannot be opened has none; `error` then says why."""
        try:
            descriptor = os.open(self.path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0))
        except OSError as error:
            self.error = f"cannot be opened ({error.strerror or error})"
            return
        with open(descriptor, "rb", buffering=0) as file:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                self.error = "is not a regular file"
                return
            self.left_out_bytes = max(0, found.st_size - MOST_FILE_BYTES)
            rest, read = b"", 0
            while read < MOST_FILE_BYTES:
                try:
                    piece = file.read(min(_PIECE, MOST_FILE_BYTES - read))
                except OSError as error:
                    self.error = f"cannot be read further ({error.strerror or error})"
                    break
                if not piece:
                    break
                read += len(piece)
                whole, rest = self._whole(rest + piece)
                if whole:
                    yield whole
            self.cut = bool(rest) and not self.left_out_bytes

    def _whole(self, text: bytes) -> tuple[bytes, bytes]:
        """Lines that have an end, and the rest. A line longer than any record is dropped piece by piece."""
        if self._inside_long:
            end = text.find(b"\n") + 1
            if not end:
                return b"", b""
            text, self._inside_long = text[end:], False
        end = text.rfind(b"\n") + 1
        whole, rest = text[:end], text[end:]
        if len(rest) > MOST_LINE_BYTES:
            self.too_long += 1
            self._inside_long, rest = True, b""
        return whole, rest

    def each(self, piece: bytes) -> Iterator[bytes]:
        """The lines of a piece, one by one."""
        for text in piece.split(b"\n"):
            if len(text) > MOST_LINE_BYTES:
                self.too_long += 1
            elif text.strip():
                yield text

    @property
    def problems(self) -> list[str]:
        """In plain words, without the file's name."""
        found = [self.error] if self.error else []
        if self.damaged:
            found.append(f"{plural(self.damaged, 'line is', 'lines are')} no record and left out")
        if self.too_long:
            found.append(
                f"{plural(self.too_long, 'line is', 'lines are')} longer than {size(MOST_LINE_BYTES)}, left out"
            )
        if self.cut:
            found.append("its last line is cut off: the process was killed, or is still writing")
        if self.left_out_bytes:
            found.append(f"only its first {size(MOST_FILE_BYTES)} were read")
        return found
