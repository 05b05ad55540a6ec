"""Reads lines of figures (`nvml.jsonl`, `host.jsonl`) and of events (`events.jsonl`), whatever keys they have."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import numpy as np

from rankscope.analyzers.pulse.model import Event
from rankscope.analyzers.pulse.readers.lines import Lines
from rankscope.analyzers.pulse.tables import Samples

MOST_FIGURES = 2_000_000  # of one file
MOST_NAMES = 200  # different figures of one file
MOST_EVENTS = 20_000
MOST_DEPTH = 3
_TIMES = ("unix_ns", "time_unix_ns", "begin_ns")
_DECODER = msgspec.json.Decoder(dict[str, Any])


def read_samples(path: str) -> tuple[Samples, list[str]]:
    """Every figure of every sample, nested keys joined by dots; a list of devices gives each its index."""
    lines = Lines(path)
    rows: list[tuple[int | None, int | None, str, float]] = []
    names: set[str] = set()
    for record in _records(lines):
        when = _time(record)
        for device, name, value in _figures(record, "", _device(record), 0):
            if name in names or len(names) < MOST_NAMES:
                names.add(name)
                rows.append((when, device, name, value))
        if len(rows) >= MOST_FIGURES:
            break
    problems = lines.problems
    if len(rows) >= MOST_FIGURES:
        problems.append(f"only its first {MOST_FIGURES:,} figures were read")
    return _table(rows), problems


def read_events(path: str) -> tuple[list[Event], list[str]]:
    """The events in the order of the file."""
    lines = Lines(path)
    found: list[Event] = []
    for record in _records(lines):
        kind, step = record.pop("kind", None), record.pop("step", None)
        if not isinstance(kind, str):
            lines.damaged += 1
            continue
        when = _time(record)
        record.pop("unix_ns", None)
        found.append(Event(kind[:100], when, step if _is_count(step) else None, record))
        if len(found) >= MOST_EVENTS:
            break
    problems = lines.problems
    if len(found) >= MOST_EVENTS:
        problems.append(f"only its first {MOST_EVENTS:,} events were read")
    return found, problems


def _records(lines: Lines) -> Iterator[dict[str, Any]]:
    for piece in lines.pieces():
        for text in lines.each(piece):
            try:
                yield _DECODER.decode(text)
            except (msgspec.MsgspecError, RecursionError):
                record = _forgiven(text)
                if record is None:
                    lines.damaged += 1
                else:
                    yield record


def _forgiven(text: bytes) -> dict[str, Any] | None:
    """A line with NaN or Infinity, which Python writes and JSON does not know."""
    if b"NaN" not in text and b"Infinity" not in text:
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _figures(value: Any, name: str, device: int | None, depth: int) -> Iterator[tuple[int | None, str, float]]:  # noqa: ANN401
    if isinstance(value, Mapping) and depth < MOST_DEPTH:
        for key, inner in value.items():
            if depth or key not in (*_TIMES, "device", "index", "step"):
                yield from _figures(inner, f"{name}.{key}" if name else key, device, depth + 1)
    elif isinstance(value, list) and depth < MOST_DEPTH:
        for position, inner in enumerate(value[:64]):
            if isinstance(inner, Mapping):
                inside = _device(inner)
                kept = {k: v for k, v in inner.items() if k not in ("device", "index")}
                yield from _figures(kept, name, position if inside is None else inside, depth + 1)
    elif isinstance(value, bool | int | float) and abs(value) < 1e300:
        yield device, name[:100], float(value)


def _device(record: Mapping[str, Any]) -> int | None:
    found = record.get("device", record.get("index"))
    return found if _is_count(found) else None


def _time(record: Mapping[str, Any]) -> int | None:
    return next((record[key] for key in _TIMES if _is_count(record.get(key))), None)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 62


def _table(rows: list[tuple[int | None, int | None, str, float]]) -> Samples:
    names = np.empty(len(rows), object)
    names[:] = [row[2] for row in rows]
    return Samples(
        {
            "unix_ns": np.array([row[0] or 0 for row in rows], np.int64),
            "device": np.array([row[1] or 0 for row in rows], np.int64),
            "name": names,
            "value": np.array([row[3] if math.isfinite(row[3]) else np.nan for row in rows], np.float64),
        },
        {
            "unix_ns": np.array([row[0] is not None for row in rows], np.bool_),
            "device": np.array([row[1] is not None for row in rows], np.bool_),
        },
    )
