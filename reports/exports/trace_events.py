"""The Chrome trace event format, as far as Perfetto reads it: slices, arrows and names of tracks, written as they come."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import BinaryIO

_CHUNK = 4096  # events held back before they are written: about 1 MB


def text(value: object) -> str:
    """A value as JSON on one line, ASCII only: no name can end the string or the line."""
    return json.dumps(value)


def microseconds(ns: int) -> str:
    """Nanoseconds as the format's microseconds, all digits: 1500 -> 1.500."""
    sign, size = ("-", -ns) if ns < 0 else ("", ns)
    return f"{sign}{size // 1000}.{size % 1000:03d}"


@dataclass(slots=True)
class TraceEvents:
    """Writes events to `file`; `close` ends the document. Memory: one chunk."""

    file: BinaryIO
    slices: int = 0
    arrows: int = 0
    _waiting: list[str] = field(default_factory=list)
    _begun: bool = False

    def name_process(self, pid: int, name: str, order: int) -> None:
        """Name a group of tracks and give it a place."""
        self._add(f'{{"ph":"M","pid":{pid},"name":"process_name","args":{{"name":{text(name)}}}}}')
        self._add(f'{{"ph":"M","pid":{pid},"name":"process_sort_index","args":{{"sort_index":{order}}}}}')

    def name_track(self, pid: int, tid: int, name: str) -> None:
        """Name a track; tracks come in the order of `tid`."""
        self._add(f'{{"ph":"M","pid":{pid},"tid":{tid},"name":"thread_name","args":{{"name":{text(name)}}}}}')
        self._add(f'{{"ph":"M","pid":{pid},"tid":{tid},"name":"thread_sort_index","args":{{"sort_index":{tid}}}}}')

    def slice(self, pid: int, tid: int, name: str, start_ns: int, dur_ns: int, category: str, args: str = "") -> None:
        """One slice. `name` is JSON already, `args` the inside of a JSON object."""
        self.slices += 1
        self._add(
            f'{{"ph":"X","pid":{pid},"tid":{tid},"cat":"{category}","name":{name},"ts":{microseconds(start_ns)},'
            f'"dur":{microseconds(dur_ns)},"args":{{{args}}}}}'
        )

    def arrow(self, begin: tuple[int, int, int], end: tuple[int, int, int]) -> None:
        """An arrow between two slices, each given by (pid, tid, a time at which it is open)."""
        self.arrows += 1
        for (pid, tid, at), kind in ((begin, '"s"'), (end, '"f","bp":"e"')):
            self._add(
                f'{{"ph":{kind},"id":{self.arrows},"cat":"launch","name":"launch","pid":{pid},"tid":{tid},'
                f'"ts":{microseconds(at)}}}'
            )

    def close(self, facts: Mapping[str, object]) -> None:
        """End the document with what there is to say about it."""
        self._write()
        if not self._begun:
            self._open()
        self.file.write(f'\n],"displayTimeUnit":"ns","otherData":{text(dict(facts))}}}\n'.encode())

    def _add(self, event: str) -> None:
        self._waiting.append(event)
        if len(self._waiting) >= _CHUNK:
            self._write()

    def _open(self) -> None:
        self.file.write(b'{"traceEvents":[\n')
        self._begun = True

    def _write(self) -> None:
        if not self._waiting:
            return
        first = not self._begun
        if first:
            self._open()
        self.file.write(("" if first else ",\n").encode() + ",\n".join(self._waiting).encode())
        self._waiting.clear()
