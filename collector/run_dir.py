"""The run directory: what the collector leaves and the analysis reads. The contract between the two, in one file.

    RUN/ranks/00003-5f2a9c01/        one process of one rank: rank, and a token of host, process and start
        manifest.json                who, where, with what; written at the start, again at the end (atomic)
        pulse.jsonl                  one line a step: stage durations, waiting, memory, logged values
        events.jsonl                 what happened now and then: a probe failed, GC, a checkpoint, out of memory
        nvml.jsonl, host.jsonl ...   samples of a probe, one line a sample
        flight_recorder-stop.json    collectives as PyTorch's flight recorder keeps them, and why they were dumped
        stacks-hang.txt              Python stacks of all threads, and why they were dumped
        traces/*.json.gz             windows of the PyTorch Profiler: steps-FIRST-LAST.json.gz
    RUN/request-window               touched by the user who runs the job: asks for something; see `collector/request.py`
    RUN/windows/, RUN/clock/         what the ranks agree on where there is no store; see `collector/board.py`

Lines are appended and whole, so that what was written before a `kill -9` stays readable; a last line without its end is
no record. A restarted rank gets a folder of its own: names never collide.

Lines of `pulse.jsonl` (absent keys: not known): `step`, `begin_ns` (UNIX nanoseconds on the host's clock), `wall_ns`,
`stages` {STAGES: ns of the training thread}, `wait` {stage: ns of it spent blocked in collectives}, `queued` {stage: ns of
it ready to run, without a processor}, `device` {stage: ns between device events}, `gc_ns`, `memory` {`host_bytes`,
`device_bytes`, `device_peak_bytes`, `reserved_bytes`}, `log` {name: number, or null for what is no number}, `spans`
{name: ns}, `hooks_ns` (the collector's own time in this step), `loader` {`wait_ns`, `batches`, `workers`, ...}.
The stages add up to `wall_ns` exactly. A stage with time but without `wait` waited for an unknown part of it. Steps count
from 0 in each folder; where the collector thinned itself out they have gaps.
Lines of `events.jsonl`: `kind`, `unix_ns`, `step` (the one that ran), and what the kind brings: `checkpoint` {what,
duration_ns}, `skipped_step`, `overflow` {of_step, loss_scale}, `not_finite` {of_step, name, value}, `gc` {pause_ns, ...},
`allocator` {retries, out_of_memory}, `thinned` {every, share}, `probe_failed` {probe, error}.
Standard library only: this file is imported inside training.
"""

from __future__ import annotations

import itertools
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Final

SCHEMA_VERSION: Final = 1
RANKS: Final = "ranks"
MANIFEST: Final = "manifest.json"
PULSE: Final = "pulse.jsonl"
EVENTS: Final = "events.jsonl"
NVML: Final = "nvml.jsonl"
HOST: Final = "host.jsonl"
CLOCK: Final = "clock.jsonl"
TRACES: Final = "traces"
FLIGHT_RECORDER: Final = "flight_recorder"  # followed by -REASON.json
STAGES: Final = ("data", "host_to_device", "forward", "backward", "optimizer", "checkpoint", "other")
_PARTS = itertools.count()
_FOLDER = re.compile(r"(\d{5,9})-([0-9a-f]{8})\Z")


@dataclass(slots=True)
class Manifest:
    """One process of one rank. None: not known. `ended` None: still running, or killed before it could say."""

    schema_version: int = SCHEMA_VERSION
    run_id: str = ""  # of the launcher (torchrun, Slurm, MPI); the same on all ranks of an attempt
    attempt: int = 0  # restarts by the launcher so far
    rank: int = 0
    local_rank: int | None = None
    world_size: int = 1
    host: str = ""
    pid: int = 0
    backend: str | None = None
    device: str | None = None  # its name; None on a CPU
    groups: list[dict[str, Any]] = field(default_factory=list)  # {"name", "description", "ranks"}
    versions: dict[str, str] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)  # of an allow-list, without secrets
    git: dict[str, Any] | None = None  # {"commit", "dirty"}; never a diff
    mode: str = "pulse"  # pulse, window, full
    probes: dict[str, str] = field(default_factory=dict)  # name -> "on", "skipped: why", "failed: why", "off"
    started_unix_ns: int = 0
    ended_unix_ns: int | None = None
    ended: str | None = None  # "finished", "exception: ...", "signal 15"
    steps: int = 0
    overhead: dict[str, Any] = field(default_factory=dict)  # the collector's own cost; see collector/overhead.py
    job: dict[str, Any] = field(default_factory=dict)  # restarts, lost steps, skipped steps, goodput
    files: list[str] = field(default_factory=list)  # relative to the folder

    def to_json(self) -> str:
        """As JSON text."""
        return json.dumps(asdict(self), indent=1, default=str) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Manifest:
        """From JSON text; unknown keys are ignored. Raises ValueError for what is no manifest."""
        found = json.loads(text)
        if not isinstance(found, dict) or not isinstance(found.get("rank"), int):
            raise ValueError("is not a manifest of rankscope")
        known = {f.name for f in fields(cls)}
        return cls(**{key: value for key, value in found.items() if key in known})


@dataclass(frozen=True, slots=True)
class RankFolder:
    """The folder of one process of one rank."""

    path: str
    rank: int
    token: str

    def file(self, *names: str) -> str:
        """The path of a file in it."""
        return os.path.join(self.path, *names)


def rank_folder(run_dir: str | os.PathLike[str], rank: int, token: str) -> RankFolder:
    """Where this process of this rank writes. `token`: eight hexadecimal digits."""
    return RankFolder(os.path.join(os.fspath(run_dir), RANKS, f"{rank:05d}-{token}"), rank, token)


def rank_folders(run_dir: str | os.PathLike[str]) -> Iterator[RankFolder]:
    """The folders of all ranks and attempts, by name; nothing where this is no run directory. Links are not followed."""
    root = os.path.join(os.fspath(run_dir), RANKS)
    try:
        with os.scandir(root) as entries:
            names = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError:
        return
    for name in names:
        matched = _FOLDER.match(name)
        if matched:
            yield RankFolder(os.path.join(root, name), int(matched[1]), matched[2])


def write_atomically(path: str, text: str) -> None:
    """Replace a file whole or not at all; only the user may read it. Raises OSError."""
    part = f"{path}.{next(_PARTS)}.part"  # a signal's handler may write what this thread is writing
    try:
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(part, path)
    except OSError:
        with suppress(OSError):
            os.unlink(part)
        raise


def line(record: Mapping[str, Any]) -> str:
    """One record as a line, its end included."""
    return json.dumps(record, separators=(",", ":"), default=str) + "\n"
