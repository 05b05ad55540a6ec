"""Ascend's own tables of steps: `step_trace_time.csv` beside a trace, and the cluster's `cluster_step_trace_time.csv`.

They hold what Ascend's profiler makes of a rank's step and nothing else: no kernel, no host, no collective by itself.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from rankscope.analyzers.errors import UnreadableTrace

NAMES: Final = frozenset({"step_trace_time.csv", "cluster_step_trace_time.csv"})
MOST_ROWS: Final = 1 << 20
_COLUMNS: Final = ("Computing", "Communication(Not Overlapped)", "Overlapped", "Free")


@dataclass(frozen=True, slots=True)
class StepTimes:
    """One step of one rank, nanoseconds; None where the cell is no number.

    `rank` is None in the table of one rank, `step` empty where the profiler had no marks. `computing_ns` has
    `overlapped_ns` in it; the rest of the step, but for `exposed_ns` of communication, is free.
    """

    path: str
    rank: int | None
    step: str
    computing_ns: int | None
    exposed_ns: int | None
    overlapped_ns: int | None
    free_ns: int | None


def tables(paths: Sequence[str]) -> list[str]:
    """The tables of steps among these files and below these folders, by their names, each once. Links are not followed."""
    found = []
    for path in paths:
        if os.path.isdir(path):
            for folder, _, files in os.walk(path):
                found += [os.path.join(folder, name) for name in files if name in NAMES]
        elif os.path.isfile(path) and path.lower().endswith(".csv"):
            found.append(path)
    return sorted(dict.fromkeys(found))


def read(path: str) -> list[StepTimes]:
    """The rows of ranks; those of stages repeat the largest of their ranks. UnreadableTrace where it is no such table."""
    try:
        with open(path, encoding="utf-8-sig", errors="replace", newline="") as file:
            rows = csv.DictReader(file)
            if not set(_COLUMNS) <= set(rows.fieldnames or ()):
                raise UnreadableTrace(path, "is not one of Ascend's tables of steps")
            return list(_times(path, islice(rows, MOST_ROWS)))
    except csv.Error as error:
        raise UnreadableTrace(path, f"is not a table: {error}") from error
    except OSError as error:
        raise UnreadableTrace(path, f"cannot be read ({error.strerror or error})") from error


def _times(path: str, rows: Iterator[dict[str, str]]) -> Iterator[StepTimes]:
    for row in rows:
        if row.get("Type", "rank") != "rank":
            continue
        index = row.get("Index") or ""
        rank = int(index) if index.isascii() and index.isdigit() and len(index) < 8 else None
        yield StepTimes(path, rank, row.get("Step") or "", *(_ns(row[column]) for column in _COLUMNS))


def _ns(microseconds: str | None) -> int | None:
    """A cell as nanoseconds; its digits beyond them are the noise of binary fractions."""
    try:
        return round(float(microseconds or "") * 1000)
    except (ValueError, OverflowError):
        return None
