"""Run directories: which runs and attempts the folders of one hold, and which of them is reported."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice

from rankscope.analyzers.errors import BadSelection
from rankscope.analyzers.loading.discovery import shown
from rankscope.analyzers.measured import OtherRun
from rankscope.analyzers.pulse.model import Process, Recording
from rankscope.analyzers.pulse.readers.folder import read_folder, read_manifest
from rankscope.analyzers.quantities import count, plural, spans
from rankscope.collector import run_dir
from rankscope.collector.run_dir import Manifest, RankFolder

MOST_FOLDERS = 100_000  # processes of one run directory
MOST_ROWS = 2_000_000  # steps x ranks kept: about 500 MB of columns
MOST_STEPS = 20_000  # of one rank: beyond, more steps sharpen no median
LINE_BYTES = 250  # of a step, about; only to foresee the rows
NAMED = 8  # problems of files that are told one by one


@dataclass(frozen=True, slots=True)
class Found:
    """One process, by its manifest."""

    folder: RankFolder
    manifest: Manifest
    problems: Sequence[str]


Attempts = dict[int, list[Found]]  # of one run, by number


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """One run of a run directory: its attempts, oldest first, each rank once in each."""

    path: str
    id: str
    attempts: Sequence[Sequence[Found]]

    @property
    def started_ns(self) -> int:
        """When its first process began; 0: no manifest says."""
        return min(
            (f.manifest.started_unix_ns for a in self.attempts for f in a if f.manifest.started_unix_ns), default=0
        )

    def as_other(self) -> OtherRun:
        """As the report lists the runs that it is not about."""
        found = [f for attempt in self.attempts for f in attempt]
        ranks = sorted({f.folder.rank for f in found})
        return OtherRun(self.id, ranks, self.started_ns or None, [shown(f.folder.path) for f in found])


def recorded_runs(folders: Iterable[str]) -> list[RecordedRun]:
    """The runs in these run directories, newest first. Only manifests are opened."""
    runs = []
    for folder in folders:
        by_run: dict[tuple[str, int], Attempts] = defaultdict(lambda: defaultdict(list))
        times: dict[tuple[str, int, int], int] = defaultdict(int)
        nameless = []
        for found in sorted(_processes(folder), key=lambda f: f.manifest.started_unix_ns):
            manifest = found.manifest
            if not manifest.started_unix_ns and not manifest.run_id:
                nameless.append(found)
                continue
            key = (manifest.run_id, manifest.attempt, manifest.rank)
            by_run[manifest.run_id, times[key]][manifest.attempt].append(found)  # started anew under the same name
            times[key] += 1
        for attempts in _seated(nameless, list(by_run.values())):
            ordered = [sorted(attempts[number], key=lambda f: f.folder.rank) for number in sorted(attempts)]
            runs.append(RecordedRun(folder, "", ordered))
    runs.sort(key=lambda run: (run.started_ns, run.path), reverse=True)
    return _identified(runs)


def _seated(nameless: Iterable[Found], runs: list[Attempts]) -> list[Attempts]:
    """The runs, with the processes whose manifest is not there or damaged: each in the newest that lacks its rank."""
    for found in nameless:
        for attempts in reversed(runs):
            peers = attempts[max(attempts)]
            known = max(peers, key=lambda peer: peer.manifest.started_unix_ns).manifest
            room = not known.started_unix_ns or found.folder.rank < known.world_size
            if room and found.folder.rank not in {peer.folder.rank for peer in peers}:
                told = replace(found.manifest, run_id=known.run_id, attempt=known.attempt, world_size=known.world_size)
                peers.append(replace(found, manifest=told))
                break
        else:
            runs.append({found.manifest.attempt: [found]})
    return runs


def _processes(folder: str) -> list[Found]:
    return [Found(one, *read_manifest(one)) for one in islice(run_dir.rank_folders(folder), MOST_FOLDERS)]


def _identified(runs: Sequence[RecordedRun]) -> list[RecordedRun]:
    """Ids from folder and time; the same twice is numbered, oldest first."""
    used: dict[str, int] = defaultdict(int)
    result = []
    for run in reversed(runs):
        name = os.path.basename(os.path.abspath(run.path)) or "run"
        name = "".join(c if c.isascii() and (c.isalnum() or c in "._") else "-" for c in name).strip("-")[:40] or "run"
        started = run.started_ns
        if started:
            name += f"-{datetime.fromtimestamp(min(started // 10**9, 253_402_300_799), UTC):%Y%m%d-%H%M%S}"
        used[name] += 1
        result.append(replace(run, id=name + (f"-{used[name]}" if used[name] > 1 else "")))
    return result[::-1]


def chosen_run(runs: Sequence[RecordedRun], asked: str | None) -> RecordedRun:
    """The run of this id or the only one whose id begins so; the newest without an id, or where it names no run: it may
    name one of its windows.
    """
    if asked is None:
        return runs[0]
    matching = [run for run in runs if run.id == asked] or [run for run in runs if run.id.startswith(asked)]
    if len(matching) > 1:
        raise BadSelection(f"run {asked!r} fits several of the runs found: {', '.join(run.id for run in matching)}")
    return matching[0] if matching else runs[0]


def read_recording(run: RecordedRun, ranks: Collection[int] | None) -> Recording:
    """Read all processes of these ranks (None: of all)."""
    kept = [[f for f in attempt if ranks is None or f.folder.rank in ranks] for attempt in run.attempts]
    attempts = [attempt for attempt in kept if attempt]
    if not attempts:
        had = sorted({f.folder.rank for attempt in run.attempts for f in attempt})
        raise BadSelection(f"run {run.id} has ranks {spans(had)}, none of those asked for")
    reported = max((i for i, attempt in enumerate(attempts) if _pulse_bytes(attempt)), default=len(attempts) - 1)
    lines = _pulse_bytes(attempts[reported]) // LINE_BYTES
    longest = max(_pulse_bytes([found]) for found in attempts[reported]) // LINE_BYTES
    every = max(1, -(-lines // MOST_ROWS), -(-longest // MOST_STEPS))
    read = [[_read(found, every) for found in attempt] for attempt in attempts]
    earlier = [process for attempt in read[:reported] for process in attempt]
    later = [process for attempt in read[reported + 1 :] for process in attempt]
    manifest = attempts[reported][0].manifest
    recording = Recording(
        shown(run.path), run.id, manifest.run_id, manifest.attempt, read[reported], earlier, later, every
    )
    there = {found.folder.rank for attempt in run.attempts for found in attempt if found.manifest.attempt == manifest.attempt}
    recording = replace(recording, missing_ranks=sorted(set(range(recording.world_size)) - there))
    return replace(recording, warnings=_warnings(recording))


def _read(found: Found, every: int) -> Process:
    process = read_folder(found.folder, found.manifest, found.problems, every)
    return replace(process, path=shown(process.path))


def _pulse_bytes(attempt: Sequence[Found]) -> int:
    total = 0
    for found in attempt:
        try:
            total += os.path.getsize(found.folder.file(run_dir.PULSE))
        except OSError:
            continue
    return total


def _warnings(recording: Recording) -> list[str]:
    problems = [problem for process in recording.all for problem in process.problems]
    said = problems[:NAMED]
    if len(problems) > NAMED:
        said.append(f"{count(len(problems) - NAMED)} more files of {recording.path} are not whole")
    if recording.missing_ranks:
        missing = recording.missing_ranks
        has = "has" if len(missing) == 1 else "have"
        said.append(
            f"rank{'s' * (len(missing) > 1)} {spans(missing)} of {recording.world_size} {has} no folder in {recording.path}"
        )
    if recording.every > 1:
        said.append(f"the pulse is long: every {count(recording.every)}th step is looked at")
    if recording.earlier:
        attempts = {process.manifest.attempt for process in recording.earlier}
        said.append(
            f"the run was restarted: {plural(len(attempts), 'earlier attempt')} count for lost steps and goodput only"
        )
    return said
