"""All that NCCL left in some files and folders: each file is told by its content, read, and joined with the others."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from rankscope.analyzers.errors import NothingToRead
from rankscope.analyzers.nccl import debug_log, inspector, nccl_tests, text, topo_matrix, topo_xml

_FILES: Final = 20_000


@dataclass(frozen=True, slots=True)
class Evidence:
    """What was found, by kind; the path of a file stands before what comes of it."""

    communicators: tuple[debug_log.Communicator, ...]
    logs: tuple[tuple[str, debug_log.DebugLog], ...]
    collectives: tuple[inspector.Size, ...]
    layouts: tuple[tuple[str, topo_xml.Layout], ...]
    matrices: tuple[tuple[str, topo_matrix.Matrix], ...]
    tables: tuple[tuple[str, nccl_tests.Table], ...]
    notes: tuple[str, ...]  # what could not be read, or only in part


class _Gathering:
    def __init__(self) -> None:
        self.logs: list[tuple[str, debug_log.DebugLog]] = []
        self.records: list[inspector.Record] = []
        self.layouts: list[tuple[str, topo_xml.Layout]] = []
        self.matrices: list[tuple[str, topo_matrix.Matrix]] = []
        self.tables: list[tuple[str, nccl_tests.Table]] = []
        self.notes: list[str] = []
        self.strangers = 0

    def take(self, path: str) -> None:
        """Read one file as what its beginning says."""
        begin = text.head(path)
        if (size := os.path.getsize(path)) > text.FILE_BYTES:
            self.notes.append(f"{path}: only the first {text.FILE_BYTES >> 20} MiB of {size >> 20} are read")
        if begin.lstrip().startswith("{") and '"header"' in begin and ('"coll_perf"' in begin or '"p2p_perf"' in begin):
            self._inspector(path)
        elif begin.lstrip().startswith("<") and ("<system" in begin or "<graphs" in begin):
            self.layouts.append((path, topo_xml.read(text.whole(path), path)))
        elif any(map(topo_matrix.heads, begin.splitlines()[:200])):
            matrix = topo_matrix.read(text.lines(path))
            self.matrices.append((path, matrix))
            self._note(path, matrix.cut_rows, "rows of the matrix are cut")
        elif not self._log_or_table(path):
            self.strangers += 1

    def _inspector(self, path: str) -> None:
        found = inspector.read(text.lines(path))
        self.records.extend(found.records)
        self._note(path, found.bad_lines, "lines are no records of NCCL Inspector")

    def _log_or_table(self, path: str) -> bool:
        """A file of text may be both: what a job printed."""
        log, table = debug_log.read(text.lines(path)), nccl_tests.read(text.lines(path))
        if log.messages or log.versions:
            self.logs.append((path, log))
            self._note(path, log.interleaved_lines, "lines hold messages cut or run into each other")
            self._note(path, log.unplaced_messages, "messages are of communicators whose begin is not in the log")
            self._note(path, log.left_out_messages, "messages are left out: more than any real log holds")
        if table.rows:
            self.tables.append((path, table))
            self._note(path, table.cut_rows, "rows of the table are cut")
        return bool(log.messages or log.versions or table.rows)

    def _note(self, path: str, count: int, what: str) -> None:
        if count:
            self.notes.append(f"{path}: {count:,} {what}")


def gather(paths: Iterable[str]) -> Evidence:
    """Read files and what is below folders. Raises NothingToRead where nothing of NCCL is among them."""
    gathering = _Gathering()
    asked = list(paths)
    for path in _files(asked):
        try:
            gathering.take(path)
        except text.Unreadable as error:
            gathering.notes.append(str(error))
        except OSError as error:
            gathering.notes.append(f"{path}: {error.strerror or error}")
    if gathering.strangers:
        gathering.notes.append(f"files with nothing of NCCL in them: {gathering.strangers:,}")
    found = Evidence(
        tuple(debug_log.merged(log for _, log in gathering.logs)),
        tuple(gathering.logs),
        inspector.sizes(gathering.records),
        tuple(gathering.layouts),
        tuple(gathering.matrices),
        tuple(gathering.tables),
        tuple(gathering.notes),
    )
    if not (found.logs or found.collectives or found.layouts or found.matrices or found.tables):
        reasons = "".join(f"; {note}" for note in found.notes[:5])
        raise NothingToRead(f"nothing that NCCL or its tools wrote in {' '.join(asked)}{reasons}")
    return found


def _files(paths: Iterable[str]) -> Iterator[str]:
    left = _FILES
    for path in paths:
        inside = _below(path) if os.path.isdir(path) else [path]
        for file in inside:
            if left <= 0:
                return
            left -= 1
            yield file


def _below(folder: str) -> Iterator[str]:
    for at, folders, names in os.walk(folder):
        folders.sort()
        yield from (os.path.join(at, name) for name in sorted(names))
