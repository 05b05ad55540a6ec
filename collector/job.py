"""Stability of the job: skipped steps, overflow, values that are no numbers, restarts, lost steps, checkpoints, goodput."""

from __future__ import annotations

import json
import os
import time
from typing import Any, Final

from rankscope.collector.later import unusable
from rankscope.collector.probe import Records
from rankscope.collector.request import FLAGS
from rankscope.collector.run_dir import EVENTS, MANIFEST, PULSE, RankFolder, rank_folders

LOSS_SCALE: Final = "loss_scale"  # what the hook on GradScaler logs
# of each file of an earlier attempt; a line has a few hundred bytes
TAIL_BYTES: Final = 64 * 1024


class Job:
    """What happened to training so far, in this attempt; `facts()` goes into the manifest."""

    def __init__(self, records: Records) -> None:
        self._records = records
        self._began_ns = time.monotonic_ns()
        self.step = 0  # the one that runs
        self.productive_ns = 0
        self.skipped_steps = self.overflows = self.checkpoints = self.checkpoint_ns = 0
        self.not_finite: dict[str, int] = {}
        self.restarts = self.lost_steps = 0
        self._scale: float | None = None
        self._saved_ns: int | None = None
        self._saved_step: int | None = None

    def stepped(self, productive_ns: int) -> None:
        """A step has ended; its time without that of its checkpoints."""
        self.step += 1
        self.productive_ns += productive_ns

    def skipped(self) -> None:
        """The gradient scaler left the optimizer's step out."""
        self.skipped_steps += 1
        self._records.event("skipped_step")

    def saved(self, what: str, ns: int) -> None:
        """A checkpoint was saved or loaded in so many nanoseconds of the training thread."""
        self.checkpoint_ns += ns
        if what != "load":
            self.checkpoints += 1
            self._saved_ns = time.monotonic_ns()
            self._saved_step = self.step
        self._records.event("checkpoint", what=what, duration_ns=ns)

    def judge(self, line: dict[str, Any]) -> None:
        """Look at a line's logged values: those that are no numbers become null there and an event here."""
        log = line.get("log", {})
        scale = log.get(LOSS_SCALE)
        if scale is not None and self._scale is not None and scale < self._scale:
            self.overflows += 1
            self._records.event("overflow", of_step=line["step"], loss_scale=scale)
        self._scale = self._scale if scale is None else scale
        for name, value in log.items():
            wrong = unusable(value)
            if wrong is not None:
                log[name] = None
                self.not_finite[name] = self.not_finite.get(name, 0) + 1
                if self.not_finite[name] == 1:  # the first; how many followed is in the manifest
                    self._records.event("not_finite", of_step=line["step"], name=name, value=wrong)

    def facts(self) -> dict[str, Any]:
        """As the manifest keeps it. `goodput_share`: whole steps without checkpoints, of the time since the start."""
        now = time.monotonic_ns()
        wall_ns = max(1, now - self._began_ns)
        return {
            "restarts": self.restarts,
            "lost_steps": self.lost_steps,
            "skipped_steps": self.skipped_steps,
            "overflows": self.overflows,
            "not_finite": dict(self.not_finite),
            "checkpoints": self.checkpoints,
            "checkpoint_ns": self.checkpoint_ns,
            "checkpoint_age_ns": None if self._saved_ns is None else now - self._saved_ns,
            "steps_since_checkpoint": None if self._saved_step is None else self.step - self._saved_step,
            "productive_ns": self.productive_ns,
            "wall_ns": wall_ns,
            "goodput_share": round(min(1.0, self.productive_ns / wall_ns), 6),
        }

    def look_back(self, run_dir: str, own: RankFolder) -> None:
        """Count earlier attempts of this rank here that did not finish, and their steps after the last checkpoint."""
        for folder in rank_folders(run_dir):
            if folder.rank == own.rank and folder.token != own.token and not _finished(folder):
                self.restarts += 1
                self.lost_steps += _lost(folder)


def _finished(folder: RankFolder) -> bool:
    """Whether it was a run of its own that came to its end."""
    try:
        with open(os.open(folder.file(MANIFEST), FLAGS), encoding="utf-8") as file:
            return bool(json.load(file).get("ended") == "finished")
    except (OSError, ValueError, AttributeError):
        return False


def _lost(folder: RankFolder) -> int:
    """Steps of an attempt that no checkpoint kept."""
    steps = [entry["step"] + 1 for entry in _tail(folder.file(PULSE)) if isinstance(entry.get("step"), int)]
    saved = [
        entry["step"] for entry in _tail(folder.file(EVENTS))
        if entry.get("kind") == "checkpoint" and entry.get("what") != "load" and isinstance(entry.get("step"), int)
    ]  # fmt: skip
    return max(0, max(steps, default=0) - max(saved, default=0))


def _tail(path: str) -> list[dict[str, Any]]:
    """The last whole records of a file of lines."""
    try:
        with open(os.open(path, FLAGS), "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - TAIL_BYTES))
            lines = file.read().split(b"\n")
    except OSError:
        return []
    found = []
    for text in lines[1 if size > TAIL_BYTES else 0 : -1]:
        try:
            record = json.loads(text)
        except ValueError:
            continue
        if isinstance(record, dict):
            found.append(record)
    return found
