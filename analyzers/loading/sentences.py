"""What loading has to say about the files, in plain words: the warnings of the report and of the command line."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from rankscope.analyzers.loading.discovery import Found, shown
from rankscope.analyzers.loading.ranks import Capture
from rankscope.analyzers.loading.runs import RunFiles
from rankscope.analyzers.quantities import count, plural, spans
from rankscope.analyzers.run import FILE_NAME, ORDER

NAMED = 5  # files refused for one reason that are named one by one


def ranks(numbers: Sequence[int]) -> str:
    """`rank 3`, `ranks 0-3, 7`."""
    return f"rank {numbers[0]}" if len(numbers) == 1 else f"ranks {spans(numbers)}"


def nothing(paths: Sequence[str], looked_at: int, refused: Mapping[str, str]) -> str:
    """Why there is nothing to report."""
    where = shown(" ".join(paths))
    lines = list(refused_files(refused))
    if not lines:
        return f"no trace in {where}: none of {plural(looked_at, 'entry', 'entries')} ends in .json or .json.gz"
    return f"no trace in {where}:" + "".join(f"\n  {line}" for line in lines)


def warnings(
    found: Found,
    refused: Mapping[str, str],
    run: RunFiles,
    wanted: Sequence[Capture],
    among: Sequence[RunFiles],
    copies: Sequence[tuple[Capture, Capture]],
) -> list[str]:
    """Everything about the choice of files that a reader of the report must know."""
    return [
        *found.warnings,
        *refused_files(refused),
        *_copies(copies),
        *_runs(run, among),
        *_sources(wanted),
        *_ranks(run, wanted),
    ]


def refused_files(refused: Mapping[str, str]) -> Iterator[str]:
    """Files that could not be read, by reason."""
    by_reason: dict[str, list[str]] = defaultdict(list)
    for path, reason in refused.items():
        by_reason[reason].append(shown(path))
    for reason, paths in by_reason.items():
        yield from (f"{path} {reason}" for path in paths[:NAMED])
        if len(paths) > NAMED:
            yield f"{count(len(paths) - NAMED)} more files beside {paths[0]}: each {reason}"


def _copies(copies: Sequence[tuple[Capture, Capture]]) -> Iterator[str]:
    for copy, original in copies[:NAMED]:
        same = f"the rank, the process and the first event of {shown(original.path)}"
        yield f"{shown(copy.path)} is left out as a copy: it has {same}"
    if len(copies) > NAMED:
        yield f"{count(len(copies) - NAMED)} more copies of files are left out"


def _runs(run: RunFiles, among: Sequence[RunFiles]) -> Iterator[str]:
    others = [other.id for other in among if other.id != run.id]
    if others:
        more = f" and {len(others) - NAMED} more" if len(others) > NAMED else ""
        listing = ", ".join(others[:NAMED]) + more
        yield f"{len(among)} runs were found and are not merged: this is {run.id}; --run chooses {listing}"
    processes: dict[object, set[int | None]] = defaultdict(set)
    for index, other in enumerate(among):
        for capture in other.captures:
            if capture.pid and capture.pid > 1:
                processes[capture.host, capture.pid, capture.rank].add(index)
    if any(len(windows) > 1 for windows in processes.values()):
        yield "some of these runs are captures of the same processes at different times"


def _sources(wanted: Sequence[Capture]) -> Iterator[str]:
    named = [c for c in wanted if c.rank_source == FILE_NAME]
    ordered = [c for c in wanted if c.rank_source == ORDER]
    if named:
        whose = "the file" if len(wanted) == 1 else f"{len(named)} of {len(wanted)} files"
        yield f"the rank of {whose} is taken from the file name: the trace does not state it (distributedInfo)"
    if ordered:
        listing = ", ".join(f"{shown(c.path)} as rank {c.rank}" for c in ordered[:NAMED])
        more = f" and {len(ordered) - NAMED} more" if len(ordered) > NAMED else ""
        yield f"neither the trace nor its name states a rank, so files are numbered in order: {listing}{more}"


def _ranks(run: RunFiles, wanted: Sequence[Capture]) -> Iterator[str]:
    size = run.world_size
    if size is not None:
        missing = sorted(set(range(size)) - set(run.ranks))
        extra = [rank for rank in run.ranks if rank >= size]
        if missing:
            has = "has" if len(missing) == 1 else "have"
            yield f"{ranks(missing)} of {size} {has} no file: waiting by and for it is not seen"
        if extra:
            yield f"{ranks(extra)}: outside the world size {size} that the files state"
    left_out = sorted(set(run.ranks) - {c.rank for c in wanted})
    if left_out:
        yield f"{ranks(left_out)} left out as asked: waiting by and for it is not seen"
