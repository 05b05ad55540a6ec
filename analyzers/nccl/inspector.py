"""NCCL Inspector's JSON lines: one line a collective and rank, with its time and bandwidth.

A rank's time holds the waiting for those that came later. The shortest of the ranks' times at one sequence number is
the transfer, as the last rank to come saw it; bandwidths given here are that rank's.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

_MOST: Final = 2_000_000  # records kept in all


@dataclass(frozen=True, slots=True)
class Record:
    """One operation as one rank saw it."""

    communicator: str
    rank: int
    size: int
    operation: str
    sequence: int
    message_bytes: int
    duration_us: float
    busbw_gb_per_s: float


@dataclass(frozen=True, slots=True)
class Records:
    """One file."""

    records: tuple[Record, ...]
    bad_lines: int


@dataclass(frozen=True, slots=True)
class Size:
    """All operations of one kind and size in one communicator."""

    communicator: str
    ranks: int
    of_ranks: int
    operation: str
    message_bytes: int
    operations: int
    transfer_us: float  # median over operations of the shortest time among ranks
    busbw_gb_per_s: float  # median over operations, of that same rank


def read(lines: Iterable[str]) -> Records:
    """The records of a file; a line that is none is counted."""
    records: list[Record] = []
    bad = 0
    for line in lines:
        if not line.strip() or len(records) >= _MOST:
            continue
        record = _record(line)
        if record is None:
            bad += 1
        else:
            records.append(record)
    return Records(tuple(records), bad)


def sizes(records: Iterable[Record]) -> tuple[Size, ...]:
    """Records of all ranks' files summed up, one row a communicator, kind and size."""
    groups: dict[tuple[str, str, int], list[Record]] = {}
    for record in records:
        groups.setdefault((record.communicator, record.operation, record.message_bytes), []).append(record)
    return tuple(_size(group) for _, group in sorted(groups.items()))


def _size(group: list[Record]) -> Size:
    fastest: dict[int, Record] = {}
    for record in group:
        known = fastest.setdefault(record.sequence, record)
        if record.duration_us < known.duration_us:
            fastest[record.sequence] = record
    first = group[0]
    return Size(
        first.communicator,
        len({record.rank for record in group}),
        first.size,
        first.operation,
        first.message_bytes,
        len(fastest),
        statistics.median(record.duration_us for record in fastest.values()),
        statistics.median(record.busbw_gb_per_s for record in fastest.values()),
    )


def _record(line: str) -> Record | None:
    try:
        content = json.loads(line)
        header = content["header"]
        kind = "coll" if "coll_perf" in content else "p2p"
        figures = content[f"{kind}_perf"]
        return Record(
            str(header["id"])[:40],
            _count(header["rank"]),
            _count(header["n_ranks"]),
            str(figures[kind])[:40],
            _count(figures[f"{kind}_sn"]),
            _count(figures[f"{kind}_msg_size_bytes"]),
            _figure(figures, f"{kind}_exec_time_us"),
            _figure(figures, f"{kind}_busbw_gbs"),
        )
    except (ValueError, TypeError, KeyError, RecursionError, OverflowError):
        return None


def _count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 63:
        raise ValueError(value)
    return value


def _figure(figures: Mapping[str, object], name: str) -> float:
    value = figures[name]
    if not isinstance(value, (int, float)) or not math.isfinite(value) or value < 0:
        raise ValueError(value)
    return float(value)
