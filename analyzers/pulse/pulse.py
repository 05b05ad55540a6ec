"""Pulse: the stages of all ranks side by side, step by step, and the frontier through them."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from rankscope.analyzers.pulse.frontier import Bools, Floats, Frontier, Ints, frontier, meetings
from rankscope.analyzers.pulse.model import Process, Recording
from rankscope.analyzers.pulse.tables import STAGES, stage_names

FEWEST_SHARE: Final = 0.1  # of the steps of the rank that has most: with fewer a rank would take the others' steps away
WARM_UP: Final = 2.0  # times the median: leading steps that long are warm-up, as in the rule warm-up-in-average
# On a device the host does not wait in collectives: what the device did in these stages is not split from waiting.
UNSPLIT: Final = ("forward", "backward")
_PIPELINE: Final = re.compile(r"(?:^|[_\W])(?:pp|pipe|pipeline)(?:$|[_\W\d])", re.IGNORECASE)  # torch calls it mesh_pp


@dataclass
class Pulse:
    """The pulse of one run. Matrices are by (rank, step) or (rank, step, stage), with the steps that all ranks have.

    `only_steps`: those the user asked for.
    """

    recording: Recording
    only_steps: Collection[int] | None = None

    @cached_property
    def processes(self) -> list[Process]:
        """Those with enough steps to be compared, ascending by rank."""
        most = max((len(process.steps) for process in self.recording.processes), default=0)
        return [p for p in self.recording.processes if len(p.steps) and len(p.steps) >= FEWEST_SHARE * most]

    @property
    def ranks(self) -> list[int]:
        """Their ranks."""
        return [process.rank for process in self.processes]

    @cached_property
    def numbers(self) -> Ints:
        """Numbers of the steps that all ranks have, ascending."""
        found: Ints | None = None
        for process in self.processes:
            own = process.steps.step
            found = own if found is None else np.intersect1d(found, own, assume_unique=True)
        if found is None:
            return np.empty(0, np.int64)
        return found if self.only_steps is None else found[np.isin(found, list(self.only_steps))]

    @cached_property
    def usable(self) -> Ints:
        """Positions in `numbers` of the steps that are judged: not the first where two others remain, nor warm-up, nor
        steps of which some rank does not know how long it waited, where most know.
        """
        typical = np.median(self.wall_ns, axis=0) if len(self.numbers) else np.empty(0)
        first = int(len(typical) > 2 and self.only_steps is None and bool(self.numbers[0] == self._first_recorded))
        usual = float(np.median(typical)) if len(typical) else 0.0
        while first and first < len(typical) // 10 and typical[first] > WARM_UP * usual:
            first += 1
        found = np.arange(first, len(typical))
        known = ~np.isnan(self.wait_ns[:, found]).any(axis=(0, 2))
        return found if self.on_device or 2 * int(known.sum()) < len(found) else found[known]

    @property
    def _first_recorded(self) -> int:
        return max((int(process.steps.step[0]) for process in self.processes), default=0)

    @property
    def steps(self) -> list[int]:
        """Numbers of the judged steps."""
        return [int(number) for number in self.numbers[self.usable]]

    @cached_property
    def step_ns(self) -> float:
        """Wall time of a step: the median over judged steps of the median over ranks."""
        return float(np.median(np.median(self.wall_ns[:, self.usable], axis=0))) if len(self.usable) else 0.0

    # ---- matrices ----------------------------------------------------------------------------------------------------

    def column(self, name: str) -> Floats:
        """One column of PulseSteps by (rank, step); NaN where it is absent."""
        result = np.full((len(self.processes), len(self.numbers)), np.nan)
        for lane, process in enumerate(self.processes):
            rows = np.searchsorted(process.steps.step, self.numbers)
            values = process.steps.ints(name)[rows].astype(np.float64)
            result[lane] = np.where(process.steps.valid(name)[rows], values, np.nan)
        return result

    @cached_property
    def wall_ns(self) -> Floats:
        """Length of each step on each rank."""
        return self.column("wall_ns")

    def by_stage(self, part: str = "") -> Floats:
        """A part of every stage by (rank, step, stage): "" the stage itself, "wait", "queued", "device"."""
        return np.stack([self.column(name) for name in stage_names(part)], axis=2)

    @cached_property
    def stage_ns(self) -> Floats:
        """The training thread's time in each stage."""
        return self.by_stage()

    @cached_property
    def wait_ns(self) -> Floats:
        """Of that, blocked in collectives."""
        return self.by_stage("wait")

    @cached_property
    def gc_ns(self) -> Floats:
        """Garbage collection by (rank, step); NaN on ranks that did not watch it. A step without a pause has no entry."""
        found = self.column("gc_ns")
        for lane, process in enumerate(self.processes):
            watched = process.manifest.probes.get("gc_pauses") == "on" or process.steps.valid("gc_ns").any()
            found[lane] = np.nan_to_num(found[lane]) if watched else np.nan
        return found

    # ---- own time ----------------------------------------------------------------------------------------------------

    @property
    def on_device(self) -> bool:
        """Whether any rank trains on a device."""
        return any(process.manifest.device for process in self.processes)

    @property
    def in_a_pipeline(self) -> bool:
        """Whether a process group of more than one rank is called a pipeline's."""
        groups = [g for p in self.processes for g in p.manifest.groups[:4096] if isinstance(g, dict)]
        return any(
            _PIPELINE.search(str(group.get("description", ""))[:200]) and len(group.get("ranks") or ()) > 1
            for group in groups
            if isinstance(group.get("ranks"), list)
        )

    @cached_property
    def doubt(self) -> str:
        """Why the ranks' own time cannot be told from waiting; empty where it can."""
        judged = self.wait_ns[:, self.usable]
        if self.on_device:
            timed = ~np.isnan(self.by_stage("device")[:, self.usable]).all(axis=2)
            if not timed.all():
                return "the stages of the training thread do not show what its device does, and no device times were recorded"
            return ""
        if np.isnan(judged).any():
            return "the pulse does not say how long the ranks were blocked in collectives"
        if len(self.ranks) > 1 and self.in_a_pipeline:
            return "the stages of a pipeline do different work by design, so that their own times cannot be compared"
        if len(self.ranks) > 1 and not judged.any():
            return "no rank was seen waiting in a collective, so nobody can be seen waiting for another"
        return ""

    @cached_property
    def queued_ns(self) -> Floats | None:
        """Time of the judged steps in which the thread was ready to run and had no processor; None: not known of all."""
        found = self.by_stage("queued")[:, self.usable]
        return None if np.isnan(found).any() else found

    @cached_property
    def unqueued_step_ns(self) -> float:
        """`step_ns` without the time in the run queue, where that is known: what the step takes on cores of one's own."""
        if self.queued_ns is None:
            return self.step_ns
        walls = self.wall_ns[:, self.usable] - self.queued_ns.sum(axis=2)
        return max(0.0, float(np.median(np.median(walls, axis=0)))) if len(self.usable) else 0.0

    @cached_property
    def local_ns(self) -> Floats:
        """Each rank's own time in each stage of the judged steps: without waits, and without what others on its cores took
        from it. Only where there is no `doubt`.
        """
        own = self.pushed_ns
        return own if self.queued_ns is None or self.on_device else np.maximum(own - self.queued_ns, 0.0)

    @cached_property
    def pushed_ns(self) -> Floats:
        """The same with what others on its cores took from it."""
        stages = np.nan_to_num(self.stage_ns[:, self.usable])
        if self.on_device:
            device = self.by_stage("device")[:, self.usable]
            stages = np.where(np.isnan(device), stages, device)
            for stage in map(STAGES.index, UNSPLIT):
                stages[:, :, stage] = stages[:, :, stage].min(axis=0)
            return stages
        return np.asarray(np.maximum(stages - np.nan_to_num(self.wait_ns[:, self.usable]), 0.0), np.float64)

    @cached_property
    def meets(self) -> Bools:
        """In which (judged step, stage) ranks meet."""
        met = meetings(np.nan_to_num(self.wait_ns[:, self.usable]))
        if self.on_device:
            met[:, STAGES.index("backward")] = True
        return met

    @cached_property
    def frontier(self) -> Frontier:
        """The frontier through the judged steps."""
        return frontier(self.local_ns, self.meets)
