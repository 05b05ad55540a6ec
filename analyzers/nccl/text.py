"""Lines of files that anybody may have written: bounded in length and in all, regular files only.

The bounds are far above what real files hold (a debug log of 1,000 ranks with every subsystem is some hundred megabytes).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from typing import BinaryIO, Final

from rankscope.analyzers.errors import RankscopeError

LINE_CHARACTERS: Final = 1 << 14
FILE_BYTES: Final = 1 << 30
WHOLE_BYTES: Final = 16 << 20  # of a file that has to be read in one piece
HEAD_BYTES: Final = 1 << 18


class Unreadable(RankscopeError):
    """A file that cannot be read as what it looks like."""


def lines(path: str) -> Iterator[str]:
    """The lines without their ends; of a longer one its beginning. What comes after FILE_BYTES is not read."""
    left = FILE_BYTES
    with _opened(path) as file:
        inside = False
        while left > 0 and (piece := file.readline(LINE_CHARACTERS)):
            left -= len(piece)
            if not inside:
                yield piece.decode("utf-8", "replace").rstrip("\r\n")
            inside = not piece.endswith(b"\n")


def head(path: str) -> str:
    """The beginning, to tell what the file is."""
    with _opened(path) as file:
        return file.read(HEAD_BYTES).decode("utf-8", "replace")


def whole(path: str) -> bytes:
    """All of a small file. Raises Unreadable where it is not small."""
    with _opened(path) as file:
        content = file.read(WHOLE_BYTES + 1)
    if len(content) > WHOLE_BYTES:
        raise Unreadable(f"{path}: larger than {WHOLE_BYTES >> 20} MiB, which no topology is")
    return content


def _opened(path: str) -> BinaryIO:
    if not stat.S_ISREG(os.stat(path).st_mode):  # a pipe would wait for ever
        raise Unreadable(f"{path}: not a regular file")
    return open(path, "rb")
