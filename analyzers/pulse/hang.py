"""The hang of a recording, from the flight recorders of its ranks: who was waited for and had not failed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rankscope.analyzers.hang.dumps import Dump
from rankscope.analyzers.hang.judging import judge
from rankscope.analyzers.hang.verdict import Verdict
from rankscope.analyzers.pulse.job import failed, rank_end
from rankscope.analyzers.pulse.model import FlightDump, Process, Recording

AFTERWARDS = "stop"  # the reason of a dump at the regular end, when ranks need not have come equally far
STALLED = "hang"  # the reason of a dump because no step ended for a while


@dataclass(frozen=True, slots=True)
class Hang:
    """What the dumps say; `files`: those of the ranks it names."""

    verdict: Verdict
    files: list[str]


def hang_of(recording: Recording) -> Hang | None:
    """None: no dump, none but those of a regular end or of a stall that passed, nobody waits, or only for ranks that had
    failed.
    """
    processes = recording.later or recording.processes
    taken = {process.path: _standing(process) for process in processes}
    if not any(entry.reason != AFTERWARDS for entries in taken.values() for entry in entries):
        return None
    dumps = [dump for entries in taken.values() if (dump := _fullest(entries)) is not None]
    found = judge(dumps, recording.world_size)
    gone = {end.rank for process in processes if failed(end := rank_end(process))}
    if found.verdict in ("none", "unknown") or (found.verdict == "hang" and set(found.culprits) <= gone):
        return None
    return Hang(found, [dump.path for dump in dumps if dump.rank in found.culprits])


def _standing(process: Process) -> list[FlightDump]:
    """The dumps without those of a stall after which the training went on: a long checkpoint, an evaluation."""
    stalls = [event.kind for event in process.events if event.kind in ("stall", "stall_over")]
    passed = bool(stalls) and stalls[-1] == "stall_over"
    return [dump for dump in process.dumps if not (passed and dump.reason == STALLED)]


def _fullest(dumps: Sequence[FlightDump]) -> Dump | None:
    """The dump that says most: one of a hang, an exception or a signal before the one at the end."""
    ordered = sorted(dumps, key=lambda dump: (dump.reason == AFTERWARDS, dump.path))
    pending = [entry.dump for entry in ordered if entry.dump.pending]
    return pending[0] if pending else ordered[0].dump if ordered else None
