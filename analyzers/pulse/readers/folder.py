"""Reads the folder of one process of one rank: its manifest and whatever files are beside it."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar, get_origin, get_type_hints

from rankscope.analyzers.errors import UnreadableTrace
from rankscope.analyzers.hang.dumps import read_dump
from rankscope.analyzers.pulse.model import Event, FlightDump, Process
from rankscope.analyzers.pulse.readers.pings import read_pings
from rankscope.analyzers.pulse.readers.pulse import PulseFile, read_pulse
from rankscope.analyzers.pulse.readers.samples import read_events, read_samples
from rankscope.analyzers.pulse.tables import Logged, PingRounds, PulseSteps, Samples
from rankscope.collector import run_dir
from rankscope.collector.run_dir import Manifest, RankFolder

MOST_MANIFEST_BYTES = 1 << 22
MOST_FILES = 1000  # dumps, and windows, of one process
T = TypeVar("T")


@dataclass(slots=True)
class _Folder:
    """What is found while the files are read."""

    folder: RankFolder
    names: set[str]
    problems: list[str] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)

    def read(self, name: str, reader: Callable[[str], tuple[T, list[str]]], absent: T) -> T:
        """What a reader makes of a file; `absent` where there is none."""
        if name not in self.names:
            return absent
        found, problems = reader(self.folder.file(name))
        self.note(name, problems)
        return found

    def note(self, name: str, problems: Sequence[str]) -> None:
        """Keep what reading a file met."""
        where = os.path.basename(self.folder.path)
        self.problems += [f"{where}/{name} {problem}" if not problem.startswith("its ") and not problem.startswith("only ")
                          else f"{where}/{name}: {problem}" for problem in problems]  # fmt: skip
        if problems:
            self.damaged.append(self.folder.file(name))


def read_manifest(folder: RankFolder) -> tuple[Manifest, list[str]]:
    """The manifest, or one that says no more than the folder's name; and what is wrong with it."""
    path = folder.file(run_dir.MANIFEST)
    try:
        with open(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0)), "rb") as file:
            text = file.read(MOST_MANIFEST_BYTES).decode("utf-8", "replace")
        return _sound(Manifest.from_json(text), folder)
    except FileNotFoundError:
        problem = "has no manifest: the process was killed before it could write one"
        return Manifest(rank=folder.rank), [problem]
    except OSError as error:
        return Manifest(rank=folder.rank), [f"its manifest cannot be read ({error.strerror or error})"]
    except (ValueError, TypeError, RecursionError):
        return Manifest(rank=folder.rank), ["its manifest is damaged"]


def _sound(manifest: Manifest, folder: RankFolder) -> tuple[Manifest, list[str]]:
    """Fields of another type than declared take their defaults; the folder's name says the rank."""
    problems = []
    blank, hints = Manifest(), get_type_hints(Manifest)
    for entry in fields(Manifest):
        value = getattr(manifest, entry.name)
        if not _fits(value, hints[entry.name]):
            setattr(manifest, entry.name, getattr(blank, entry.name))
            problems.append(f"its manifest's {entry.name} is not what it should be, and is left out")
    if manifest.rank != folder.rank:
        problems.append(f"its manifest says rank {manifest.rank}; the folder's name stands")
        manifest.rank = folder.rank
    return manifest, problems


def _fits(value: Any, hint: Any) -> bool:  # noqa: ANN401 (any JSON value, any type)
    options = getattr(hint, "__args__", ()) if get_origin(hint) not in (list, dict) else (hint,)
    allowed = tuple(get_origin(option) or option for option in options or (hint,))
    if isinstance(value, bool):
        return bool in allowed
    if isinstance(value, int):
        return int in allowed and 0 <= value < 1 << 62
    return isinstance(value, allowed)


def read_folder(folder: RankFolder, manifest: Manifest, problems: Sequence[str] = (), every: int = 1) -> Process:
    """Everything one process left but its traces, which are only listed."""
    try:
        names = set(os.listdir(folder.path))
    except OSError:
        names = set()
    found = _Folder(folder, names, [f"{os.path.basename(folder.path)} {problem}" for problem in problems])
    if problems:
        found.damaged.append(folder.file(run_dir.MANIFEST))
    pulse = PulseFile(PulseSteps.empty(), Logged.empty(), 0)
    if run_dir.PULSE in names:
        pulse = read_pulse(folder.file(run_dir.PULSE), every)
        found.note(run_dir.PULSE, pulse.problems)
    events: list[Event] = []
    blank = Samples.empty()
    return Process(
        path=folder.path,
        manifest=manifest,
        steps=pulse.steps,
        logged=pulse.logged,
        steps_recorded=pulse.lines,
        events=found.read(run_dir.EVENTS, read_events, events),
        nvml=found.read(run_dir.NVML, read_samples, blank),
        host=found.read(run_dir.HOST, read_samples, blank),
        pings=found.read(run_dir.CLOCK, read_pings, PingRounds.empty()),
        dumps=_dumps(found),
        traces=trace_files(folder),
        bytes=_bytes(folder.path),
        problems=found.problems,
        damaged=found.damaged,
    )


def _dumps(found: _Folder) -> list[FlightDump]:
    prefix = f"{run_dir.FLIGHT_RECORDER}-"
    names = sorted(name for name in found.names if name.startswith(prefix) and name.endswith(".json"))
    dumps = []
    for name in names[:MOST_FILES]:
        path = found.folder.file(name)
        try:
            if not stat.S_ISREG(os.lstat(path).st_mode):
                raise UnreadableTrace(path, "is not a regular file")
            dump = read_dump(path, found.folder.rank)
        except UnreadableTrace as error:
            found.note(name, [error.reason])
        except OSError as error:
            found.note(name, [f"cannot be read ({error.strerror or error})"])
        else:
            dumps.append(FlightDump(path, name.removeprefix(prefix).removesuffix(".json"), dump))
    return dumps


def trace_files(folder: RankFolder) -> list[str]:
    """The windows of the profiler, by name."""
    place = folder.file(run_dir.TRACES)
    try:
        with os.scandir(place) as entries:
            found = sorted(e.path for e in entries if e.is_file(follow_symlinks=False) and ".json" in e.name)
    except OSError:
        return []
    return found[:MOST_FILES]


def _bytes(folder: str) -> int:
    """Of the files of one process."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names[:MOST_FILES]:
            try:
                total += os.lstat(os.path.join(place, name)).st_size
            except OSError:
                continue
    return total
