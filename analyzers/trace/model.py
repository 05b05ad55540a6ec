"""Trace: everything one file recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from rankscope.analyzers.trace.table import Table

T = TypeVar("T", bound=Table)


class MissingTable(LookupError):
    """A table was not recorded. Its message is the reason; `record` is the copyable line that records it."""

    def __init__(self, table: type[Table]) -> None:
        super().__init__(f"{table.__name__} were not recorded")
        self.record = table.record


@dataclass(frozen=True, slots=True)
class ProcessGroup:
    """One entry of `distributedInfo.pg_config`; `ranks` is None where the file does not list them."""

    name: str
    description: str
    backend: str
    ranks: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class DeviceLimits:
    """What one device has, from `deviceProperties`; None where the file does not say."""

    device: int
    memory_bytes: int | None  # totalGlobalMem
    compute_capability: int | None  # 10 x major + minor: 90 on H100; AMD fills it in too, with numbers of its own


@dataclass(frozen=True, slots=True)
class TraceMeta:
    """What the file says of itself, and what reading it met. None where the file does not say."""

    path: str
    rank: int | None  # distributedInfo.rank, nothing else; names and order are the loader's business
    world_size: int | None
    backend: str | None  # nccl, gloo, ...
    host: str | None
    base_ns: int  # baseTimeNanoseconds, 0 in files with absolute times
    trace_id: str | None  # group_trace_id, else trace_id
    devices: tuple[tuple[int, str], ...]  # (id, name) from deviceProperties
    groups: tuple[ProcessGroup, ...]
    flags: Mapping[str, int]  # record_shapes, with_stack, profile_memory, ... as written
    events: int  # entries of traceEvents that were read
    skipped_events: int  # entries that are not valid JSON or not events
    truncated: bool
    unknown_categories: Mapping[str, int] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()  # in plain words, each without the file's name
    limits: tuple[DeviceLimits, ...] = ()  # of the devices in `devices`
    knows_launches: bool = True  # False: a format without launches, whose device events count by the clock


@dataclass(frozen=True, slots=True)
class Trace:
    """The tables of one file: `trace[HostEvents]`, or MissingTable."""

    meta: TraceMeta
    names: Sequence[str]
    tables: Mapping[type[Table], Table]

    def __getitem__(self, table: type[T]) -> T:
        found = self.tables.get(table)
        if found is None:
            raise MissingTable(table)
        return found  # type: ignore[return-value]

    def get(self, table: type[T]) -> T:
        """The table, or one without rows."""
        return self[table] if table in self.tables else table.empty()

    def __contains__(self, table: type[Table]) -> bool:
        return table in self.tables
