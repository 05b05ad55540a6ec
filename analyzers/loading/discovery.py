"""Discovery: from the paths a person names to the files that may be traces. Nothing is opened here."""

from __future__ import annotations

import glob
import os
import stat
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from rankscope.analyzers.errors import NothingToRead
from rankscope.analyzers.quantities import count
from rankscope.analyzers.run import Unreadable
from rankscope.collector.run_dir import RANKS, rank_folders

MOST_ENTRIES = 2_000_000  # looked at under one folder: some seconds on a local disk
MOST_FILES = 20_000  # that may be traces; each costs an open
_SKIPPED_FOLDERS = frozenset({"__pycache__", "node_modules", "site-packages"})
_KINDS = (
    (stat.S_ISFIFO, "a FIFO"), (stat.S_ISSOCK, "a socket"), (stat.S_ISCHR, "a device"), (stat.S_ISBLK, "a device"),
)  # fmt: skip


@dataclass(slots=True)
class Found:
    """Files that may be traces, in a stable order, each once; what was refused; and what the scan had to leave out."""

    files: list[str] = field(default_factory=list)
    refused: list[Unreadable] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    run_dirs: list[str] = field(default_factory=list)  # of the collector; `files` has nothing of their ranks' folders
    looked_at: int = 0  # entries of folders


def discover(paths: Sequence[str]) -> Found:
    """Files named, below the folders named, or matching the patterns named. NothingToRead when a path leads nowhere."""
    found = Found()
    for path in paths:
        places = [path] if os.path.lexists(path) else sorted(glob.glob(path, recursive=True))
        if not places:
            kind = "no file matches" if glob.has_magic(path) else "no such file or folder:"
            raise NothingToRead(f"{kind} {shown(path)}")
        for place in places:
            _take(place, found)
    found.files, found.run_dirs = _each_once(found.files), _each_once(found.run_dirs)
    return found


def _take(path: str, found: Found) -> None:
    try:
        mode = os.stat(path).st_mode
    except OSError as error:
        found.refused.append(Unreadable(path, f"cannot be opened ({error.strerror})"))
        return
    if stat.S_ISDIR(mode):
        above = os.path.dirname(os.path.abspath(path))
        _scan(above if _is_ranks_folder(os.path.basename(os.path.abspath(path)), above) else path, found)
    elif stat.S_ISREG(mode):
        found.files.append(path)
    else:
        kind = next((word for test, word in _KINDS if test(mode)), "something else")
        found.refused.append(Unreadable(path, f"is {kind}, not a regular file"))


def _scan(root: str, found: Found) -> None:
    """All files below a folder whose names can be those of traces, nearest first. Links are not followed."""
    files: list[str] = []
    links: list[str] = []
    looked = 0
    for entry in islice(_entries(root, found), MOST_ENTRIES):
        looked += 1
        if entry.is_symlink():
            if may_be_trace(entry.name) or entry.is_dir():
                links.append(entry.path)
        elif may_be_trace(entry.name) and entry.is_file(follow_symlinks=False):
            files.append(entry.path)
    found.looked_at += looked
    if looked == MOST_ENTRIES:
        found.warnings.append(
            f"{shown(root)}: only the first {count(looked)} entries were looked at; name a smaller folder"
        )
    if len(files) > MOST_FILES:
        few = f"{count(MOST_FILES)} of {count(len(files))}"
        found.warnings.append(f"{shown(root)}: only {few} JSON files were looked at; name a smaller folder")
    found.files += sorted(files, key=lambda path: (not _likely(path), path))[:MOST_FILES]
    _refuse_links(root, links, found)


def _entries(root: str, found: Found) -> Iterator[os.DirEntry[str]]:
    """Everything below a folder, a level at a time."""
    folders = deque([root])
    while folders:
        folder = folders.popleft()
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if _is_ranks_folder(entry.name, folder) and entry.is_dir(follow_symlinks=False):
                        found.run_dirs.append(folder)
                    elif _worth_entering(entry):
                        folders.append(entry.path)
                    yield entry
        except OSError as error:
            found.refused.append(Unreadable(folder, f"cannot be listed ({error.strerror})"))


def may_be_trace(name: str) -> bool:
    """Whether a file of this name is opened when its folder is scanned."""
    lower = name.lower()
    return lower.endswith((".json", ".json.gz")) or ".pt.trace.json" in lower


def shown(path: str) -> str:
    """A path as text that can be printed and stored, whatever bytes its name has."""
    return path.encode("utf-8", "backslashreplace").decode()


def _likely(path: str) -> bool:
    name = os.path.basename(path).lower()
    return any(word in name for word in ("trace", "rank", "worker", "kineto"))


def _worth_entering(entry: os.DirEntry[str]) -> bool:
    return not entry.name.startswith(".") and entry.name not in _SKIPPED_FOLDERS and entry.is_dir(follow_symlinks=False)


def _is_ranks_folder(name: str, folder: str) -> bool:
    return name == RANKS and next(rank_folders(folder), None) is not None


def _refuse_links(root: str, links: list[str], found: Found) -> None:
    """A link to what is in the folder is found there; one that leads out of it is followed only when named itself."""
    inside = os.path.realpath(root)
    for link in sorted(links):
        target = os.path.realpath(link)
        if os.path.commonpath((inside, target)) != inside:
            found.refused.append(Unreadable(link, "is a link out of the folder; name it itself to have it read"))


def _each_once(files: list[str]) -> list[str]:
    """Without repeats of one file under several names or paths."""
    seen: dict[tuple[int, int] | str, str] = {}
    for path in files:
        try:
            found = os.stat(path)
            seen.setdefault((found.st_dev, found.st_ino), path)
        except OSError:
            seen.setdefault(path, path)
    return list(seen.values())
