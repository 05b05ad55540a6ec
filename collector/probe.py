"""What a probe is: one file in `probes/` that watches one thing, and what it is given to do so.

A probe never raises into training: the session calls it behind one guard, and a probe that fails is switched off, logged
once and noted in the manifest while training goes on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from rankscope.collector.run_dir import RankFolder


class Unavailable(RuntimeError):
    """What the probe needs is not there (no GPU, no library): its reason becomes `skipped: ...` in the manifest."""


class Records(Protocol):
    """Append-only lines of this rank; calls are cheap, thread-safe, bounded in size and never raise."""

    def append(self, file: str, record: Mapping[str, Any]) -> None:
        """Append one record to a file of the rank's folder, such as `nvml.jsonl`."""
        ...

    def event(self, kind: str, **what: object) -> None:
        """Append to `events.jsonl`, with time and step."""
        ...


@dataclass(slots=True)
class Place:
    """Where a probe runs. `step` is kept current by the session."""

    folder: RankFolder
    records: Records
    rank: int
    world_size: int
    local_rank: int | None
    step: int = 0


class Probe(Protocol):
    """One thing that is watched. `name` is its file's name, and its switch: RANKSCOPE_<NAME>=0."""

    name: str

    def start(self, place: Place) -> None:
        """Begin; Unavailable where that is impossible."""
        ...

    def step(self, step: int) -> None:
        """A step has ended; at most some microseconds."""
        ...

    def stop(self) -> None:
        """End, and write what is left."""
        ...
