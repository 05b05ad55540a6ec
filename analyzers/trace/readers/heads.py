"""A cheap first look at a file: what its first megabyte says of it."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Any

from rankscope.analyzers.errors import UnreadableTrace
from rankscope.analyzers.trace.readers import exact_time, foreign, meta
from rankscope.analyzers.trace.readers.categories import KINDS, TRACE_SPAN
from rankscope.analyzers.trace.readers.columns import Names
from rankscope.analyzers.trace.readers.cutting import Window, enter, keys_behind, leave
from rankscope.analyzers.trace.readers.forgiving import ForgivingTier, integer
from rankscope.analyzers.trace.readers.opening import Text
from rankscope.analyzers.trace.tables import HostEvents, PythonFunctions, RuntimeCalls

FEW = 1 << 15  # bytes of events that are enough, as a rule
MOST = 1 << 20  # bytes that are looked at where they are not
TAIL = 1 << 16
ABSOLUTE_NS = 10**17  # times after a base are below 10**16: Kineto's base is at most a quarter of a year back
AFTER_ARRAY = re.compile(rb'\]\s*,\s*"')


@dataclass(frozen=True, slots=True)
class Head:
    """What a file says early on; None where it does not, or says it further back. Times are nanoseconds."""

    path: str
    rank: int | None  # distributedInfo.rank
    world_size: int | None
    base_ns: int | None  # None: not seen; 0: the times are absolute
    host: str | None
    trace_id: str | None
    first_ns: int | None  # earliest begin, after the base, of the timed events at the front
    pid: int | None  # of the first host event


def heads_of(path: str) -> list[Head]:
    """The head of a file of one rank."""
    return [head_of(path)]


def head_of(path: str) -> Head:
    """The head of a Kineto trace, or of one in its words."""
    with Text(path) as text:
        window = Window(text, FEW)
        keys, bare = enter(window)
        reader = ForgivingTier(Names())
        found = reader.salvage(window.rest()[:FEW], last=False)
        first, pid = _first(found.events)
        whole = found.closed
        if not whole and (first is None or pid is None):
            while len(window) < MOST and window.fill():
                pass
            found = reader.salvage(window.rest(), last=window.ended)
            first, pid = _first(found.events)
            whole = found.closed
        if whole:
            window.begin += found.used
            keys |= leave(window, bare=bare) or {}
        elif text.gzip is None and "baseTimeNanoseconds" not in keys:
            keys |= _tail(text)
        if first is None and (whole or window.ended):
            reader.batches(found.events)
            raise UnreadableTrace(path, foreign.without_rows(reader.phases, len(found.events)))
    said = meta.said(keys)
    absolute = first is not None and first > ABSOLUTE_NS
    base = said["base_ns"] if whole or absolute or "baseTimeNanoseconds" in keys else None
    return Head(path, said["rank"], said["world_size"], base, said["host"], said["trace_id"], first, pid)


def _first(events: list[object]) -> tuple[int | None, int | None]:
    """The earliest begin of a timed event, and the process of the first host event."""
    first = pid = None
    for event in events:
        if not isinstance(event, dict) or event.get("ph") != "X" or event.get("cat") == TRACE_SPAN:
            continue
        process, start = integer(event.get("pid")), exact_time.from_number(event.get("ts"))
        if process is None or start is None:
            continue
        first = start if first is None else min(first, start)
        if pid is None and _on_host(event.get("cat")):
            pid = process
    return first, pid


def _on_host(category: object) -> bool:
    kind = KINDS.get(category) if isinstance(category, str) else None
    return kind is not None and kind.table in (HostEvents, RuntimeCalls, PythonFunctions)


def _tail(text: Text) -> dict[str, Any]:
    """The keys behind the array of an uncompressed file, from its last bytes."""
    end = os.pread(text.file, TAIL, max(0, text.size - TAIL))
    for match in list(AFTER_ARRAY.finditer(end))[-16:]:
        found = keys_behind(end[match.start() + 1 :])
        if found is not None:
            return found
    return {}
