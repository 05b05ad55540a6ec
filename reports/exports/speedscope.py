"""Threads of all ranks for speedscope: operators, annotations, runtime calls and Python stacks, a profile a thread.

Times are nanoseconds after the rank's first event, on its own clock.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import BinaryIO, Final

import numpy as np

from rankscope.analyzers.one_rank.hygiene import set_aside
from rankscope.reports.exports.lanes import lanes
from rankscope.reports.exports.recorded import Events, threads
from rankscope.reports.exports.source import Source

SCHEMA: Final = "https://www.speedscope.app/file-format-schema.json"
_PYTHON: Final = re.compile(r"(?P<file>[^()]+)\((?P<line>\d{1,9})\): (?P<name>.+)", re.DOTALL)
_CHUNK: Final = 8192


def write(source: Source, file: BinaryIO) -> int:
    """Write the run; how many events it holds. Memory: one rank's trace, and the distinct names of all."""
    frames: dict[str, int] = {}
    written = 0
    for lane, rank, trace in source.traces():
        zero = source.analysis.records[lane].facts.begin_ns or 0
        for name, events in threads(trace, set_aside(trace), source.extent(lane)):
            beside = lanes(events.start, events.end, nested=True)
            for n in range(int(beside.max()) + 1):
                mine = np.flatnonzero(beside == n)
                part = Events(*(column[mine] for column in events))
                frame = [frames.setdefault(trace.names[i], len(frames)) for i in part.name_id.tolist()]
                head = f"rank {rank} {name}" if n == 0 else f"rank {rank} {name} ({n + 1})"
                file.write(b',\n{"type":"evented",' if written else b'{"profiles":[\n{"type":"evented",')
                file.write(f'"name":{json.dumps(head)},"unit":"nanoseconds",'.encode())
                _profile(file, frame, (part.start - zero).tolist(), (part.end - zero).tolist())
                written += len(mine)
    if not written:
        file.write(b'{"profiles":[')
    tail = {"$schema": SCHEMA, "name": source.analysis.run.id, "exporter": "rankscope", "activeProfileIndex": 0}
    shared = {"frames": [_frame(name) for name in frames]}
    file.write(f'\n],"shared":{json.dumps(shared)},{json.dumps(tail)[1:]}\n'.encode())
    return written


def _profile(file: BinaryIO, frame: list[int], start: list[int], end: list[int]) -> None:
    """The rest of one profile: events that open and close like brackets."""
    file.write(f'"startValue":{start[0]},"endValue":{max(end)},"events":['.encode())
    comma, waiting = "", []
    for event in _brackets(frame, start, end):
        waiting.append(event)
        if len(waiting) == _CHUNK:
            file.write((comma + ",".join(waiting)).encode())
            comma, waiting = ",", []
    file.write(((comma if waiting else "") + ",".join(waiting) + "]}").encode())


def _brackets(frame: list[int], start: list[int], end: list[int]) -> Iterator[str]:
    """Events in order of begin, the longest first, as openings and closings in order of time."""
    opened: list[int] = []
    for i, begin in enumerate(start):
        while opened and end[opened[-1]] <= begin:
            last = opened.pop()
            yield f'{{"type":"C","frame":{frame[last]},"at":{end[last]}}}'
        yield f'{{"type":"O","frame":{frame[i]},"at":{begin}}}'
        opened.append(i)
    for last in reversed(opened):
        yield f'{{"type":"C","frame":{frame[last]},"at":{end[last]}}}'


def _frame(name: str) -> dict[str, object]:
    """A frame; of a Python function with its file and line."""
    found = _PYTHON.fullmatch(name)
    return (
        {"name": name} if found is None else {"name": found["name"], "file": found["file"], "line": int(found["line"])}
    )
