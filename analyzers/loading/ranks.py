"""Ranks: which rank a file is of, by what it says, else by its name. The last resort, order, is decided in a run."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rankscope.analyzers.run import DISTRIBUTED_INFO, FILE_NAME, ORDER, PROCESS_ID
from rankscope.analyzers.trace.readers import Head, file_of

ABSOLUTE_NS = (
    10**17
)  # times of 1973 and later; a file whose times are smaller and have no base does not say when it began
_NAMED = tuple(
    re.compile(rf"(?<![a-z]){word}[-_ =]?(\d{{1,7}})(?!\d)", re.IGNORECASE) for word in ("rank", "worker", "proc")
)
_OF_PART = re.compile(
    r"(?:local|node|dp|tp|pp|ep|cp)[-_ ]?rank[-_ =]?\d+", re.IGNORECASE
)  # a rank, but not in the whole job
_SUFFIX = re.compile(r"(?:\.pt)?(?:\.trace)?\.json.*$|\.gz$", re.IGNORECASE)
_STAMP = re.compile(r"[._-]\d{10,}$")  # a time of writing
_PROCESS = re.compile(r"_\d+\.\d{10,}$")  # tensorboard_trace_handler: host_pid.time
_LAST = re.compile(r"(?:^|[._-])(?:[rwp]|gpu|device|cuda)?(\d{1,5})$", re.IGNORECASE)
_FIRST = re.compile(r"^(\d{1,5})[._-]")
_COUNTS = re.compile(
    r"(?:^|[._-])(?:step|iter|iteration|epoch|run|exp|version|v|cycle|window|part|node|host|try)[._-]?\d*$",
    re.IGNORECASE,
)
MOST_RANKS = 1_000_000  # a rank or world size beyond is no such thing
PLAUSIBLE = 1024  # a bare number up to here may be a rank; process ids and times are larger


@dataclass(frozen=True, slots=True)
class Capture:
    """One trace file before it is read in full. `rank` None: neither the file nor its name says."""

    path: str
    rank: int | None
    rank_source: str
    world_size: int | None
    started_ns: int | None  # UNIX nanoseconds by its host's clock
    host: str | None
    pid: int | None

    @property
    def folder(self) -> str:
        """The folder it lies in."""
        return os.path.dirname(os.path.abspath(self.path))


def captures(heads: Mapping[str, Head]) -> list[Capture]:
    """What is known of each file, in the order given."""
    unsaid = [path for path, head in heads.items() if _stated_rank(head) is None]
    named = named_ranks(unsaid, {path: _world_size(heads[path]) for path in unsaid})
    result = []
    for path, head in heads.items():
        stated = _stated_rank(head)
        said = DISTRIBUTED_INFO if file_of(path) == path else PROCESS_ID
        rank, source = (stated, said) if stated is not None else (named.get(path), FILE_NAME)
        source = ORDER if rank is None else source
        result.append(Capture(path, rank, source, _world_size(head), _started(head), head.host, head.pid))
    return result


def named_ranks(paths: Sequence[str], world_sizes: Mapping[str, int | None] | None = None) -> dict[str, int]:
    """Ranks that names state, without the files whose names say nothing.

    `rank3` or `worker-3`, in a folder's name as well; else a bare number that sets the file apart from its neighbours
    and is small enough to be a rank.
    """
    result: dict[str, int] = {}
    bare: dict[tuple[str, str], dict[str, int]] = defaultdict(dict)
    for path in paths:
        stated = _stated(path)
        if stated is not None:
            result[path] = stated
            continue
        for template, number in _bare(path):
            bare[template][path] = number
    sizes = world_sizes or {}
    for family in sorted(bare.values(), key=len, reverse=True):
        if _are_ranks(family, sizes):
            result = family | result
    return result


def _stated(path: str) -> int | None:
    for part in reversed(os.path.normpath(path).split(os.sep)[-4:]):
        part = _OF_PART.sub("", part)
        for word in _NAMED:
            found = word.findall(part)
            if found:
                return int(found[-1])
    return None


def _bare(path: str) -> list[tuple[tuple[str, str], int]]:
    """Candidates: a number at the end of the name, at its front, or a folder's name; each with what is around it."""
    folder, name = os.path.split(os.path.normpath(path))
    stem = _SUFFIX.sub("", name)
    result: list[tuple[tuple[str, str], int]] = []
    if not _PROCESS.search(stem):
        stem = _STAMP.sub("", stem)
        last, first = _LAST.search(stem), _FIRST.search(stem)
        if last and not _COUNTS.search(stem[: last.start(1)].rstrip("._-")):
            result.append(((folder, stem[: last.start(1)]), int(last[1])))
        if first:
            result.append(((folder, stem[first.end(1) :]), int(first[1])))
    above, number = os.path.split(folder)
    if number.isdecimal() and len(number) < 6:
        result.append(((above, ""), int(number)))
    return result


def _are_ranks(family: Mapping[str, int], sizes: Mapping[str, int | None]) -> bool:
    """Numbers that differ, each below the world size; where that is unknown, below twice the number of files."""
    stated = [size for path in family if (size := sizes.get(path)) is not None]
    bound = max(stated) if stated else min(PLAUSIBLE, 2 * len(family))
    return len(set(family.values())) == len(family) and max(family.values()) < bound


def _stated_rank(head: Head) -> int | None:
    return head.rank if head.rank is not None and 0 <= head.rank < MOST_RANKS else None


def _world_size(head: Head) -> int | None:
    return head.world_size if head.world_size is not None and 0 < head.world_size <= MOST_RANKS else None


def _started(head: Head) -> int | None:
    if head.first_ns is None:
        return None
    absolute = head.first_ns + (head.base_ns or 0)
    return absolute if absolute > ABSOLUTE_NS else None
