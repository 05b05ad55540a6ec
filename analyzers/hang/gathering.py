"""From a folder to the dumps in it: one a rank, the newest, and the stacks beside them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from rankscope.analyzers.errors import NothingToRead, UnreadableTrace
from rankscope.analyzers.hang.dumps import Dump, read_dump
from rankscope.collector import run_dir

MOST_FILES: Final = 100_000
FLAGS: Final = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0)
_RANK: Final = re.compile(r"(\d{1,7})(?:\.(?:json|pkl|pickle))?\Z")


@dataclass(slots=True)
class Gathered:
    """Dumps by rank, stack files by rank, and what could not be read."""

    dumps: list[Dump] = field(default_factory=list)
    stacks: dict[int, str] = field(default_factory=dict)  # rank -> path
    warnings: list[str] = field(default_factory=list)
    world_size: int | None = None


def gather(place: str) -> Gathered:
    """All dumps of a folder or a run directory. NothingToRead where there is none."""
    if not os.path.isdir(place):
        raise NothingToRead(f"{place} is not a folder")
    found = Gathered()
    newest: dict[int, Dump] = {}
    seen = 0
    for path, rank in sorted(islice(_files(place), MOST_FILES), key=lambda item: (_age(item[0]), item[0])):
        seen += 1
        if os.path.basename(path).startswith("stacks"):
            found.stacks[rank] = path
            continue
        try:
            newest[rank] = _fuller(read_dump(path, rank), newest.get(rank))
        except UnreadableTrace as error:
            found.warnings.append(f"{error.path}: {error.reason}")
        except OSError as error:
            found.warnings.append(f"{path}: cannot be read ({error.strerror or error})")
    found.dumps = [newest[rank] for rank in sorted(newest)]
    found.world_size = _world(place)
    if not found.dumps:
        said = f"; {found.warnings[0]}" if found.warnings else ""
        raise NothingToRead(f"no flight-recorder dump in {place} ({seen} files could be one by their names){said}")
    return found


def _fuller(new: Dump, old: Dump | None) -> Dump:
    """The newer dump of a rank, unless it says nothing and the older one does."""
    return old if old is not None and old.operations and not new.operations else new


def _files(place: str) -> Iterator[tuple[str, int]]:
    """Files that may be dumps or stacks, each with its rank."""
    folders = list(run_dir.rank_folders(place))
    for folder in folders:
        with os.scandir(folder.path) as entries:
            for entry in entries:
                if entry.name.startswith((run_dir.FLIGHT_RECORDER, "stacks")) and entry.is_file(follow_symlinks=False):
                    yield entry.path, folder.rank
    if folders:
        return
    for root, _, names in os.walk(place):
        for name in names:
            matched = _RANK.search(name)
            path = os.path.join(root, name)
            if matched and not os.path.islink(path) and os.path.isfile(path):
                yield path, int(matched[1])


def _age(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0


def _world(place: str) -> int | None:
    """What the manifests of a run directory say."""
    for folder in run_dir.rank_folders(place):
        try:
            with open(os.open(folder.file(run_dir.MANIFEST), FLAGS), encoding="utf-8") as file:
                return run_dir.Manifest.from_json(file.read(1 << 22)).world_size
        except (OSError, ValueError, TypeError):
            continue
    return None
