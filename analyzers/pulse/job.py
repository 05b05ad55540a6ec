"""The job over its attempts: goodput, restarts, steps lost and skipped, checkpoints, and how each process ended."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from statistics import median
from typing import Any

import numpy as np

from rankscope.analyzers.pulse.measured import JobReport, RankEnd
from rankscope.analyzers.pulse.model import Process, Recording


def job_report(recording: Recording) -> JobReport:
    """What happened to the job, over all its attempts."""
    attempts = _attempts(recording)
    began = min((p.manifest.started_unix_ns for p in recording.all if p.manifest.started_unix_ns), default=None)
    last = max((t for p in recording.all if (t := last_sign(p)) is not None), default=None)
    wall = last - began if began is not None and last is not None and last > began else None
    lost = sum(_lost(attempt) for attempt in attempts[:-1])
    productive = _productive(attempts, lost)
    newest = recording.later or recording.processes
    return JobReport(
        attempts=len(attempts),
        restarts=max(_most(newest, "restarts"), len(attempts) - 1),
        wall_ns=wall,
        productive_ns=productive,
        goodput_share=min(1.0, productive / wall) if wall and productive is not None else None,
        lost_steps=lost,
        skipped_steps=sum(_told(a, "skipped_steps", "skipped_step") for a in attempts),
        overflows=sum(_told(a, "overflows", "overflow") for a in attempts),
        not_finite=not_finite(recording.all),
        checkpoints=sum(_most(attempt, "checkpoints") for attempt in attempts),
        checkpoint_ns=sum(_most(attempt, "checkpoint_ns") for attempt in attempts),
        checkpoint_age_ns=_least(newest, "checkpoint_age_ns"),
        steps_since_checkpoint=_least(newest, "steps_since_checkpoint"),
        ends=[rank_end(process) for process in recording.all],
    )


def rank_end(process: Process) -> RankEnd:
    """How this process ended."""
    manifest = process.manifest
    steps = max(process.steps_recorded, manifest.steps)
    return RankEnd(
        process.rank, manifest.attempt, manifest.host or None, manifest.ended, steps, last_sign(process), process.path
    )


def failed(end: RankEnd) -> bool:
    """Whether it ended by an exception."""
    return end.ended is not None and end.ended.startswith("exception")


def last_sign(process: Process) -> int | None:
    """When it was last heard of, UNIX nanoseconds on its host's clock; None: never."""
    steps = process.steps
    begun = steps.valid("begin_ns")
    times = [process.manifest.ended_unix_ns or 0, process.manifest.started_unix_ns]
    if begun.any():
        times.append(int((steps.begin_ns + steps.wall_ns)[begun].max()))
    times += [event.unix_ns for event in process.events if event.unix_ns is not None]
    times += [int(s.unix_ns[s.valid("unix_ns")].max(initial=0)) for s in (process.nvml, process.host)]
    return max(times) or None


def not_finite(processes: Iterable[Process]) -> dict[str, int]:
    """Logged values that were no numbers, or infinite: by name, on the rank where they were most."""
    found: dict[str, int] = defaultdict(int)
    for process in processes:
        told = process.manifest.job.get("not_finite")
        counts = {k: v for k, v in told.items() if isinstance(v, int)} if isinstance(told, dict) else {}
        for event in process.events:
            name = event.what.get("name")
            if event.kind == "not_finite" and isinstance(name, str):
                counts.setdefault(name, 1)
        wrong = ~np.isfinite(process.logged.columns["value"].astype(np.float64))
        for name, n in zip(*np.unique(process.logged.columns["name"][wrong].astype(str), return_counts=True), strict=True):
            counts[str(name)] = max(counts.get(str(name), 0), int(n))
        for name, n in counts.items():
            found[name[:100]] = max(found[name[:100]], n)
    return {name: n for name, n in found.items() if n}


def saved_step(process: Process) -> int:
    """The step before which its last checkpoint was saved; 0: it saved none."""
    return max((e.step or 0 for e in process.events if e.kind == "checkpoint" and e.what.get("what") != "load"), default=0)


def _attempts(recording: Recording) -> list[list[Process]]:
    by_number: dict[int, list[Process]] = defaultdict(list)
    for process in recording.all:
        by_number[process.manifest.attempt].append(process)
    return [by_number[number] for number in sorted(by_number)]


def _lost(attempt: Sequence[Process]) -> int:
    """Steps of an attempt that no checkpoint kept, on the rank that came furthest; 0 where all finished."""
    if all(process.manifest.ended == "finished" for process in attempt):
        return 0
    return max((_done(process) - saved_step(process) for process in attempt), default=0)


def _done(process: Process) -> int:
    return max(int(process.steps.step.max(initial=-1)) + 1, saved_step(process))


def _productive(attempts: Sequence[Sequence[Process]], lost: int) -> int | None:
    """Whole steps, without checkpoints; the median rank of each attempt; the steps that were lost left out."""
    total, lengths = 0.0, []
    for attempt in attempts:
        by_rank = [_productive_of(process) for process in attempt if len(process.steps)]
        total += median(by_rank) if by_rank else 0.0
        lengths += [float(np.median(process.steps.wall_ns)) for process in attempt if len(process.steps)]
    if not lengths:
        return None
    return max(0, round(total - lost * median(lengths)))


def _productive_of(process: Process) -> float:
    """Of one process: what its manifest counted, or, where it was killed since, what its steps add up to."""
    own = process.steps.wall_ns - process.steps.checkpoint_ns
    thinned = max(1, process.steps_recorded) / max(1, len(process.steps))
    return max(_count(process.manifest.job.get("productive_ns")), float(own.sum()) * thinned)


def _told(attempt: Sequence[Process], key: str, kind: str) -> int:
    """A count of the manifests, or of the events since: on the rank that has most."""
    events = [sum(event.kind == kind for event in process.events) for process in attempt]
    return max([_most(attempt, key), *events])


def _most(processes: Sequence[Process], key: str) -> int:
    return max((_count(process.manifest.job.get(key)) for process in processes), default=0)


def _least(processes: Sequence[Process], key: str) -> int | None:
    """The least over ranks: every rank saves its part of a checkpoint, or one saves for all."""
    told = [found for p in processes if isinstance(found := p.manifest.job.get(key), int) and found >= 0]
    return min(told, default=None)


def _count(value: Any) -> int:  # noqa: ANN401 (any JSON value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 62 else 0
