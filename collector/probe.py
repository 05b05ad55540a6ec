"""What a probe is: one file in `probes/` that watches one thing, and what it is given to do so.

A probe never raises into training: the session calls it behind one guard, and a probe that fails is switched off, logged
once and noted in the manifest while training goes on.

The session finds probes by walking `rankscope.collector.probes` when it starts, never at import. A module there offers

    PROBE       the class; it is called with what the user gave as `probes={"<name>": {...}}`, or with nothing
    DEFAULT     whether it is on unless asked: True, False, or a tuple of the modes in which it is on
    NEEDS       optional: the name of a module without which it can not start yet, such as "torch"; the session starts it
                at the end of the first step that finds this module loaded, and imports nothing

and besides what `Probe` asks for, its class may have

    ending(reason)   the run ends in an unusual way, "exception: ..." or "signal 15": dump what explains it. Called before
                     `stop`, and for a signal also from a thread of ours while the training thread stands in a collective
    every_step       True: its `step` is called after every step, also those that a thinned collector does not listen to
    flushed()        called about every second by the thread that writes the records: work that must stay off the step
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from rankscope.collector.run_dir import RankFolder

if TYPE_CHECKING:
    from rankscope.collector.job import Job
    from rankscope.collector.later import Later
    from rankscope.collector.options import Options
    from rankscope.collector.stages import StageClock

Function = Callable[..., Any]
Guard = Callable[[str, Function], Function]  # a probe's name and function -> one that never raises, but returns None


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
    """Where a probe runs. `step` and `line` are kept current by the session."""

    folder: RankFolder
    records: Records
    rank: int
    world_size: int
    local_rank: int | None
    options: Options
    clock: StageClock
    job: Job
    optimizer_stepped: Callable[[bool], None]  # told after an optimizer's step whether it was the first optimizer's
    guard: Guard  # for what a probe hangs into training
    step: int = 0  # the one that runs
    line: dict[str, Any] = field(default_factory=dict)  # the pulse's line of the step that ended: `step()` may add keys
    later: list[Later] = field(default_factory=list)  # what that line still waits for; see `collector/later.py`
    listeners: list[Function] = field(default_factory=list)  # told each line of the pulse once it is complete


class Probe(Protocol):
    """One thing that is watched. `name` is its file's name, and its switch: RANKSCOPE_<NAME>=0."""

    name: str

    def start(self, place: Place) -> None:
        """Begin; Unavailable where that is impossible."""
        ...

    def step(self, step: int) -> None:
        """A step has ended; at most some microseconds. Left out in steps that a thinned collector does not listen to."""
        ...

    def stop(self) -> None:
        """End, and write what is left. Called once for each probe that was started."""
        ...
