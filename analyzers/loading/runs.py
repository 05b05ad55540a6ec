"""Runs: which files belong together. Captures of different runs, or windows of one run, are never merged."""

from __future__ import annotations

import os
import re
import statistics
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from rankscope.analyzers.errors import BadSelection
from rankscope.analyzers.loading.ranks import Capture
from rankscope.collector.run_dir import RANKS

GAP_NS = (
    60 * 10**9
)  # captures of one run begin together; clocks of hosts differ by seconds, runs follow one another by minutes
_NOT_IN_ID = re.compile(r"[^A-Za-z0-9._]+")


@dataclass(frozen=True, slots=True)
class RunFiles:
    """The captures of one run, each rank once, ascending; every capture has a rank."""

    id: str
    captures: tuple[Capture, ...]

    @property
    def started_ns(self) -> int | None:
        """The earliest begin, UNIX nanoseconds."""
        return min((c.started_ns for c in self.captures if c.started_ns is not None), default=None)

    @property
    def ranks(self) -> list[int]:
        """Its ranks, ascending."""
        return [c.rank for c in self.captures if c.rank is not None]

    @property
    def world_size(self) -> int | None:
        """What its files state; they agree."""
        return next((c.world_size for c in self.captures if c.world_size is not None), None)


def runs(captures: Sequence[Capture]) -> list[RunFiles]:
    """The runs among these captures, newest first. Cost: O(n log n)."""
    parts: list[list[Capture]] = []
    for cluster in _by_time(captures):
        for same_world in _by_world(cluster):
            parts += _each_rank_once(_with_order(same_world))
    parts = _joined_across_clocks(parts)
    found = [RunFiles("", tuple(sorted(part, key=lambda c: (c.rank or 0, c.path)))) for part in parts]
    found.sort(key=lambda run: (run.started_ns or 0, run.captures[0].path), reverse=True)
    return _identified(found)


def chosen(found: Sequence[RunFiles], asked: str | None) -> RunFiles:
    """The run of this id or the only one whose id begins so; without an id the newest whole one, else the largest."""
    if asked is None:
        most = max(len(run.captures) for run in found)
        whole = [run for run in found if _whole(run, most)]
        return whole[0] if whole else max(found, key=lambda run: len(run.captures))  # of equals the first, the newest
    matching = [run for run in found if run.id == asked] or [run for run in found if run.id.startswith(asked)]
    if len(matching) != 1:
        state = "is not among" if not matching else "fits several of"
        raise BadSelection(f"run {asked!r} {state} the runs found: {', '.join(run.id for run in found)}")
    return matching[0]


def holding(found: Sequence[RunFiles], path: str) -> RunFiles | None:
    """The run that this file is part of."""
    return next((run for run in found if any(c.path == path for c in run.captures)), None)


def without_copies(
    captures: Sequence[Capture], alike: Callable[[str, str], bool]
) -> tuple[list[Capture], list[tuple[Capture, Capture]]]:
    """The captures without second files of one process and first event, and each copy with what it is a copy of.

    Files that state different ranks are no copies, and neither are files of which none states a rank, or in different
    folders files that are not `alike`: simulated runs repeat times and processes.
    """
    seen: dict[tuple[object, ...], list[Capture]] = defaultdict(list)
    copies: dict[str, Capture] = {}
    for capture in sorted(captures, key=lambda c: c.rank is None):  # stable: those with a rank first
        if capture.pid is None or capture.started_ns is None:
            continue
        process = (capture.host, capture.pid, capture.started_ns)
        candidates = seen[process] if capture.rank is None else seen[*process, capture.rank]
        for original in candidates:
            if original.folder == capture.folder or alike(original.path, capture.path):
                copies[capture.path] = original
                break
        else:
            if capture.rank is not None:
                seen[process].append(capture)
                seen[*process, capture.rank].append(capture)
    kept = [c for c in captures if c.path not in copies]
    return kept, [(c, copies[c.path]) for c in captures if c.path in copies]


def _whole(run: RunFiles, most: int) -> bool:
    size = run.world_size
    return len(run.captures) == most if size is None else set(range(size)) <= set(run.ranks)


def _by_time(captures: Sequence[Capture]) -> list[list[Capture]]:
    """Captures that begin together, clocks of hosts taken as they are. Those that do not say when are by themselves."""
    timed = sorted((c for c in captures if c.started_ns is not None), key=lambda c: (c.started_ns or 0, c.path))
    untimed = [c for c in captures if c.started_ns is None]
    clusters: list[list[Capture]] = []
    for capture in timed:
        last = clusters[-1][-1].started_ns if clusters else None
        if last is None or (capture.started_ns or 0) - last > GAP_NS:
            clusters.append([])
        clusters[-1].append(capture)
    if untimed and len(clusters) == 1 and not {c.rank for c in untimed} & {c.rank for c in timed} - {None}:
        clusters[0] += untimed
    elif untimed:
        clusters.append(untimed)
    return clusters


def _by_world(captures: list[Capture]) -> list[list[Capture]]:
    """Captures of jobs of one size; those that do not state it go with the most."""
    worlds: dict[int | None, list[Capture]] = defaultdict(list)
    for capture in captures:
        worlds[capture.world_size].append(capture)
    silent = worlds.pop(None, [])
    if not worlds:
        return [silent]
    max(worlds.values(), key=len).extend(silent)
    return list(worlds.values())


def _with_order(captures: list[Capture]) -> list[Capture]:
    """Give ranks to those without, by order of their names, leaving out those taken; a process has one rank."""
    taken = {c.rank for c in captures}
    given: dict[object, int] = {}
    free = 0
    result = [c for c in captures if c.rank is not None]
    for capture in sorted((c for c in captures if c.rank is None), key=lambda c: _natural(c.path)):
        process = (capture.host, capture.pid) if capture.pid and capture.pid > 1 else capture.path
        if process not in given:
            while free in taken:
                free += 1
            given[process] = free
            taken.add(free)
        result.append(replace(capture, rank=given[process]))
    return result


def _each_rank_once(captures: list[Capture]) -> list[list[Capture]]:
    """Divide captures that begin together so that none has a rank twice: by folder where that does it, else by time."""
    if not _repeats(captures):
        return [captures]
    folders: dict[str, list[Capture]] = defaultdict(list)
    for capture in captures:
        folders[capture.folder].append(capture)
    if any(_repeats(group) for group in folders.values()):
        return _rounds(captures)
    parts: list[list[Capture]] = []
    for folder, group in sorted(folders.items()):
        fitting = [part for part in parts if not _repeats(part + group)]
        if fitting:
            max(fitting, key=lambda part: len(os.path.commonpath((folder, part[0].folder)))).extend(group)
        else:
            parts.append(list(group))
    return parts


def _rounds(captures: list[Capture]) -> list[list[Capture]]:
    """The k-th captures of all ranks. A rank that lacks some is fitted in by time, its host's clock set by others."""
    by_rank: dict[int, list[Capture]] = defaultdict(list)
    for capture in sorted(captures, key=lambda c: (c.started_ns or 0, c.path)):
        by_rank[capture.rank or 0].append(capture)
    most = max(map(len, by_rank.values()))
    pattern = next(own for _, own in sorted(by_rank.items()) if len(own) == most)
    ahead: dict[str | None, list[int]] = defaultdict(list)
    for own in by_rank.values():
        if len(own) == most:
            ahead[own[0].host] += [_apart(c, like) for c, like in zip(own, pattern, strict=True)]
    parts: list[list[Capture]] = [[] for _ in range(most)]
    for own in by_rank.values():
        offset = statistics.median(ahead.get(own[0].host, [0]))
        first = 0
        for left, capture in zip(range(len(own) - 1, -1, -1), own, strict=True):
            places = range(first, most - left)
            place = min(places, key=lambda k: abs(_apart(capture, pattern[k]) - offset))
            parts[place].append(capture)
            first = place + 1
    return parts


def _apart(capture: Capture, other: Capture) -> int:
    return (capture.started_ns or 0) - (other.started_ns or 0)


def _joined_across_clocks(parts: list[list[Capture]]) -> list[list[Capture]]:
    """Put together what only clocks set apart: parts that share no rank and no host and make up their world exactly."""
    result: list[list[Capture]] = []
    pieces: dict[int | None, list[list[Capture]]] = defaultdict(list)
    for part in parts:
        size = next((c.world_size for c in part if c.world_size is not None), None)
        incomplete = size is not None and len(part) < size and all(c.host for c in part)
        (pieces[size] if incomplete else result).append(part)
    for size, group in pieces.items():
        ranks = [c.rank for part in group for c in part]
        hosts = [host for part in group for host in {c.host for c in part}]
        whole = sorted(rank for rank in ranks if rank is not None) == list(range(size or 0))
        if whole and len(hosts) == len(set(hosts)):
            result.append([c for part in group for c in part])
        else:
            result += group
    return result


def _identified(found: list[RunFiles]) -> list[RunFiles]:
    """Ids from folder and time; the same twice (windows of one second, no times) is numbered, oldest first."""
    used: dict[str, int] = defaultdict(int)
    result = []
    for run in reversed(found):
        folder = os.path.basename(_without_ranks(os.path.commonpath([c.folder for c in run.captures])))
        name = _NOT_IN_ID.sub("-", folder).strip("-")[:40] or "run"
        started = run.started_ns
        when = f"-{datetime.fromtimestamp(started // 10**9, UTC):%Y%m%d-%H%M%S}" if started is not None else ""
        used[name + when] += 1
        number = used[name + when]
        result.append(replace(run, id=name + when + (f"-{number}" if number > 1 else "")))
    return result[::-1]


def _without_ranks(folder: str) -> str:
    """The run directory of windows that lie in its ranks' folders; any other folder itself."""
    parts = folder.split(os.sep)
    return os.sep.join(parts[: parts.index(RANKS)]) if RANKS in parts[1:] else folder


def _repeats(captures: Sequence[Capture]) -> bool:
    return len({c.rank for c in captures}) < len(captures)


def _natural(text: str) -> list[tuple[str, int]]:
    """Sorts `file10` after `file9`."""
    return [(word, int(digits or 0)) for word, digits in re.findall(r"(\D*)(\d{0,18})", text)]
