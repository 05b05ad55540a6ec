"""Cache: what was read from a trace file, kept so that the next report need not read it again.

Immutable entries per trace: `.head` (the first look), `.record` (the small RankRecord) and `.trace` (every column, for
when only the record's code or options changed). An entry is found by the file's identity and by the source text of the
modules that made it, so a cache can never change a result; one that cannot be used costs a warning and nothing else.
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache as once
from pathlib import Path
from typing import BinaryIO

from rankscope.analyzers.loading.container import Buffer
from rankscope.analyzers.trace.readers.parts import file_of, split

CAP_BYTES = 5_000_000_000
LISTED_PARTS = (
    20  # the folder is listed again after a twentieth of its cap; so much may it grow beyond, for each process
)
_END_BYTES = 64 << 10  # how much of both ends of a file goes into its key
_STALE_S = 3600  # an unfinished entry older than this was left by a process that is gone
_WRITING = ".writing-"
_SUFFIXES = (".head", ".record", ".trace")


class Cache:
    """Entries in one folder of the user's own. `problem` says, once and in words, why it could not be used."""

    def __init__(self, folder: str | None, cap_bytes: int = CAP_BYTES) -> None:
        """`folder` None: a cache that keeps nothing."""
        self.folder = folder
        self.cap_bytes = cap_bytes
        self.problem: str | None = None
        self._unlisted = cap_bytes  # bytes written since the folder was last listed; at first that is unknown
        if folder is not None:
            self._unusable_if(_refusal(folder))

    def key(self, path: str) -> str | None:
        """Identity of the file as it stands: size, times, inode, both ends. None when nothing is to be kept."""
        if self.folder is None:
            return None
        digest = hashlib.blake2b(digest_size=16)
        with open(file_of(path), "rb") as file:
            seen = os.fstat(file.fileno())
            digest.update(
                f"{seen.st_size} {seen.st_mtime_ns} {seen.st_ctime_ns} {seen.st_ino} {split(path)[1]}\n".encode()
            )
            digest.update(_ends(file, seen.st_size))
        return digest.hexdigest()

    def read(self, name: str) -> bytes | None:
        """The bytes of an entry, whose last use is noted; None when there is no such entry."""
        if self.folder is None:
            return None
        try:
            entry = os.open(os.path.join(self.folder, name), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            with open(entry, "rb", buffering=0) as file:
                found = os.fstat(entry)
                if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
                    return None
                with suppress(OSError):
                    os.utime(entry)
                return file.read()
        except OSError:
            return None

    def write(self, name: str, pieces: Sequence[Buffer]) -> bool:
        """Keep an entry: whole or not at all. Failing to is noted in `problem` and stops further writing."""
        size = sum(len(piece) for piece in pieces)
        if self.folder is None or self.problem or size > self.cap_bytes:
            return False
        unfinished = os.path.join(self.folder, f"{_WRITING}{os.getpid()}-{name}")
        try:
            with _created(unfinished) as entry:
                for piece in pieces:
                    entry.write(piece)
            os.replace(unfinished, os.path.join(self.folder, name))
            self._unlisted += size
            if self._unlisted > self.cap_bytes // LISTED_PARTS:
                self._evict()
        except OSError as error:
            said = f"cannot be written ({error.strerror}); nothing is kept for the next report"
            self.problem = f"the cache {self.folder} {said}"
            return False
        return True

    def discard(self, name: str) -> None:
        """Drop a damaged entry."""
        if self.folder is not None:
            with suppress(OSError):
                os.unlink(os.path.join(self.folder, name))

    def sweep(self, pid: int) -> None:
        """Remove what a process that is gone was still writing."""
        if self.folder is None:
            return
        with suppress(OSError), os.scandir(self.folder) as entries:
            for entry in entries:
                if entry.name.startswith(f"{_WRITING}{pid}-"):
                    os.unlink(entry.path)

    def _evict(self) -> None:
        """Bring the folder under its cap, least recently used first. Cost: one listing."""
        self._unlisted = 0
        kept, total = [], 0
        with os.scandir(self.folder) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):
                    found = entry.stat(follow_symlinks=False)
                    if entry.name.startswith(_WRITING) and time.time() - found.st_mtime > _STALE_S:
                        os.unlink(entry.path)
                    elif entry.name.endswith(_SUFFIXES) and stat.S_ISREG(found.st_mode):
                        kept.append((found.st_mtime_ns, found.st_size, entry.path))
                        total += found.st_size
        for _, size, path in sorted(kept):
            if total <= self.cap_bytes:
                break
            with suppress(FileNotFoundError):
                os.unlink(path)
            total -= size

    def _unusable_if(self, reason: str | None) -> None:
        if reason:
            self.problem = f"the cache {self.folder} is not used: {reason}"
            self.folder = None


def alike(path: str, other: str) -> bool:
    """Whether two files have one size, beginning and end."""
    try:
        with open(file_of(path), "rb") as one, open(file_of(other), "rb") as two:
            size = os.fstat(one.fileno()).st_size
            return size == os.fstat(two.fileno()).st_size and _ends(one, size) == _ends(two, size)
    except OSError:
        return False


def default_folder() -> str | None:
    """`$XDG_CACHE_HOME/rankscope`, else `~/.cache/rankscope`; None for a user without a home."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):
        base = os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "rankscope") if os.path.isabs(base) else None


@once
def source_digest(*patterns: str) -> str:
    """Digest of the source text of these modules of `rankscope/analyzers`: changed code makes new entries."""
    base = Path(__file__).resolve().parent.parent
    digest = hashlib.blake2b(digest_size=8)
    for source in sorted({path for pattern in patterns for path in base.glob(pattern)}):
        digest.update(f"{source.relative_to(base)}\n".encode() + source.read_bytes())
    return digest.hexdigest()


def _ends(file: BinaryIO, size: int) -> bytes:
    begin = file.read(_END_BYTES)
    file.seek(max(0, size - _END_BYTES))
    return begin + file.read(_END_BYTES)


def _refusal(folder: str) -> str | None:
    """Make the folder, private; why it must not be used, if so."""
    try:
        os.makedirs(os.path.dirname(folder) or ".", exist_ok=True)
        with suppress(FileExistsError):
            os.mkdir(folder, 0o700)
        found = os.lstat(folder)
    except OSError as error:
        return f"it cannot be made ({error.strerror})"
    if stat.S_ISLNK(found.st_mode):
        return "it is a symbolic link"
    if not stat.S_ISDIR(found.st_mode):
        return "it is not a folder"
    if found.st_uid != os.geteuid():
        return "it belongs to another user"
    if found.st_mode & 0o022:
        return "others may write to it"
    return None


class _Entry:
    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def write(self, piece: Buffer) -> None:
        left = memoryview(piece)
        while left:
            left = left[os.write(self.descriptor, left) :]


@contextmanager
def _created(path: str) -> Iterator[_Entry]:
    """A new private file, removed again when anything interrupts its writing."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        yield _Entry(descriptor)
    except BaseException:
        os.unlink(path)
        raise
    finally:
        os.close(descriptor)
