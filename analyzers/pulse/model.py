"""Recording: what one run left in its run directory, as read: a process a rank, and the attempts before it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rankscope.analyzers.hang.dumps import Dump
from rankscope.analyzers.pulse.tables import Logged, PingRounds, PulseSteps, Samples
from rankscope.collector.run_dir import Manifest


@dataclass(frozen=True, slots=True)
class Event:
    """One line of `events.jsonl`. `what`: the keys that its kind brings."""

    kind: str
    unix_ns: int | None
    step: int | None
    what: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class FlightDump:
    """One dump of PyTorch's flight recorder, and why it was written: stop, exception, hang, signal, ..."""

    path: str
    reason: str
    dump: Dump


@dataclass(frozen=True, slots=True)
class Process:
    """One process of one rank: its folder, read. `steps_recorded` counts the lines; the table may hold fewer."""

    path: str  # of the folder
    manifest: Manifest
    steps: PulseSteps
    logged: Logged
    steps_recorded: int
    events: Sequence[Event] = ()
    nvml: Samples = field(default_factory=Samples.empty)
    host: Samples = field(default_factory=Samples.empty)
    pings: PingRounds = field(default_factory=PingRounds.empty)
    dumps: Sequence[FlightDump] = ()
    traces: Sequence[str] = ()
    bytes: int = 0  # of all its files
    problems: Sequence[str] = ()  # each with the file's name
    damaged: Sequence[str] = ()  # files that are not whole

    @property
    def rank(self) -> int:
        """Its rank."""
        return self.manifest.rank


@dataclass(frozen=True, slots=True)
class Recording:
    """One run of a run directory. `processes`: those of the attempt that is reported, a rank once, ascending.

    `every`: only steps whose number it divides were kept in memory; 1: all.
    """

    path: str
    id: str
    run_id: str
    attempt: int
    processes: Sequence[Process]
    earlier: Sequence[Process] = ()  # attempts before it, oldest first
    later: Sequence[Process] = ()  # attempts after it that came to no step
    every: int = 1
    warnings: Sequence[str] = ()
    missing_ranks: Sequence[int] = ()  # without a folder in the attempt; those not asked for are not missing

    @property
    def all(self) -> list[Process]:
        """The processes of all attempts."""
        return [*self.earlier, *self.processes, *self.later]

    @property
    def ranks(self) -> list[int]:
        """The ranks of the attempt, ascending."""
        return [process.rank for process in self.processes]

    @property
    def world_size(self) -> int:
        """The largest that a manifest states; at least what its ranks need."""
        return max([p.manifest.world_size for p in self.processes] + [rank + 1 for rank in self.ranks], default=0)

    @property
    def started_unix_ns(self) -> int | None:
        """The earliest begin of the attempt."""
        return min((p.manifest.started_unix_ns for p in self.processes if p.manifest.started_unix_ns), default=None)

    @property
    def damaged(self) -> list[str]:
        """Files that are not whole."""
        return [path for process in self.all for path in process.damaged]
