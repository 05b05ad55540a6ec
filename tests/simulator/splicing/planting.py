"""Faults to plant in a recorded run, and what they did to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from statistics import median

from rankscope.simulator.splicing.graph import retimed
from rankscope.simulator.splicing.placing import Clock, Placed
from rankscope.simulator.splicing.recorded import LOADER, RankFile, RecordedRun
from rankscope.simulator.splicing.waiting import Lane, Waits, waits

ROUNDS = 12  # of finding the amounts that lengthen each step as much as asked for
CLOSE = 0.02  # of what is asked for


class PlantKind(StrEnum):
    """What is done to the run."""

    SLOW_COMPUTE = "slow_compute"  # a rank's kernels last longer, all in proportion; without a device its operators
    SLOW_LOADER = "slow_loader"  # a rank's loader takes longer
    HOST_PAUSE = "host_pause"  # a rank's host pauses before the launch in the middle of the step
    CLOCK = "clock"  # a rank's clock is ahead, and drifts; nothing else happens


@dataclass(frozen=True, slots=True)
class Plant:
    """A fault of one rank. `amounts_ns`: what is added in each step."""

    kind: PlantKind
    rank: int
    amounts_ns: Mapping[int, int] = field(default_factory=dict)
    clock: Clock = field(default_factory=Clock)


@dataclass(frozen=True)
class Spliced:
    """A run with a fault: the files' new texts by rank, and how much longer each step took."""

    run: RecordedRun
    plant: Plant | None
    waits: Waits
    added_ns: dict[int, int]  # by moment: what was added there
    times_ns: list[int]  # of the graph's moments
    lengthened_ns: dict[int, int]  # by judged step, median over ranks
    step_ns: dict[int, int]  # by judged step, as it is now, median over ranks

    @property
    def typical_ns(self) -> float:
        """The step as it is now: median over the judged steps."""
        return median(self.step_ns.values())

    @property
    def share(self) -> float:
        """How much longer every judged step is at least, as a share of the typical one."""
        return min(self.lengthened_ns.values()) / self.typical_ns

    def write(self, folder: Path) -> None:
        """Write each rank's file, under its own name but never compressed."""
        folder.mkdir(parents=True, exist_ok=True)
        for rank, lane in self.waits.lanes.items():
            clock = self.plant.clock if self.plant and self.plant.rank == rank else None
            placed = Placed(lane, self.waits.graph.recorded_ns, self.times_ns, clock)
            path = folder / lane.file.path.name.removesuffix(".gz")
            path.write_text(lane.file.text(placed.times(), placed.moments()), encoding="utf-8")


class Spliceable:
    """A recorded run, ready to be spliced any number of times."""

    def __init__(self, run: RecordedRun) -> None:
        self.run = run
        self.waits = waits(run)
        self.order = self.waits.graph.order()
        self.recorded_steps = self._steps(self.waits.graph.recorded_ns)

    def splice(self, plant: Plant | None = None) -> Spliced:
        """Plant the fault; None: none."""
        added = self._added(plant) if plant else {}
        times = retimed(self.waits.graph, self.order, added)
        now = self._steps(times)
        now = {step: now[step] for step in self.judged}
        longer = {step: now[step] - self.recorded_steps[step] for step in now}
        return Spliced(self.run, plant, self.waits, added, times, longer, now)

    def can(self, kind: PlantKind, rank: int) -> bool:
        """Whether the rank recorded what this kind of fault acts on, in every step."""
        return all(self._places(kind, rank, step) for step in self.run.ranks[rank].steps)

    def plant_share(self, kind: PlantKind, rank: int, share: float) -> Spliced:
        """Plant as much in each step as makes `Spliced.share` this: what slack hides, too."""
        amount = 0.0
        spliced = self.splice()
        for _ in range(ROUNDS):
            missing = share - spliced.share
            if abs(missing) <= CLOSE * share:
                break
            amount += missing / (1 - share) * spliced.typical_ns
            amounts = dict.fromkeys(self.run.ranks[rank].steps, round(amount))
            spliced = self.splice(Plant(kind, rank, amounts))
        return spliced

    @property
    def judged(self) -> list[int]:
        """The steps but the first, where at least two others remain."""
        steps = sorted(self.recorded_steps)
        return steps[1:] if len(steps) > 2 else steps

    def _added(self, plant: Plant) -> dict[int, int]:
        added: dict[int, int] = {}
        grain = self.run.grain_ns
        for step, amount in plant.amounts_ns.items():
            places = self._places(plant.kind, plant.rank, step)
            whole = sum(places.values())
            for moment, weight in places.items():
                added[moment] = added.get(moment, 0) + round(amount * weight / whole / grain) * grain
        return added

    def _places(self, kind: PlantKind, rank: int, step: int) -> dict[int, int]:
        """The moments at which the fault acts in this step, with their weights."""
        lane = self.waits.lanes[rank]
        file, mark = lane.file, lane.file.steps[step]
        launched = sorted(
            (file.times[call].begin_ns, work)
            for work, call in file.launches.items()
            if mark.begin_ns <= file.times[call].begin_ns < mark.end_ns
        )
        if kind is PlantKind.HOST_PAUSE:
            return {lane.launches[launched[len(launched) // 2][1]]: 1} if launched else {}
        if kind is PlantKind.CLOCK:
            return {}
        if kind is PlantKind.SLOW_COMPUTE and file.has_device:
            kernels = [work for _, work in launched if file.events[work].get("cat") == "kernel"]
            works = [work for work in kernels if not file.is_collective(work)]
            return {lane.ends[work]: max(1, length(file, work)) for work in works}
        inside = [i for i in lane.after_work if mark.begin_ns <= file.times[i].begin_ns < mark.end_ns]
        loading = kind is PlantKind.SLOW_LOADER
        works = [i for i in inside if file.name(i).startswith(LOADER) == loading]
        return {lane.after_work[work]: max(1, length(file, work)) for work in works}

    def _steps(self, times_ns: list[int]) -> dict[int, int]:
        """How long each step took, median over ranks."""
        by_step: dict[int, list[int]] = {}
        for lane in self.waits.lanes.values():
            for step, window in windows(lane, self.waits.graph.recorded_ns, times_ns).items():
                by_step.setdefault(step, []).append(window)
        return {step: round(median(lengths)) for step, lengths in by_step.items()}


def length(file: RankFile, event: int) -> int:
    """How long an event lasted."""
    return file.times[event].end_ns - file.times[event].begin_ns


def windows(lane: Lane, recorded_ns: list[int], times_ns: list[int]) -> dict[int, int]:
    """Each step's length on this rank: from its mark, or the end of the last kernel launched before, to the next's."""
    file, placed = lane.file, Placed(lane, recorded_ns, times_ns)
    kernels = sorted(
        (file.times[call].begin_ns, times_ns[lane.ends[work]])
        for work, call in file.launches.items()
        if file.events[work].get("cat") == "kernel" and not file.is_collective(work)
    )
    marks = sorted(file.steps.items())
    bounds = [(mark.begin_ns, placed.host(mark.begin_ns)) for _, mark in marks]
    last = marks[-1][1].end_ns
    bounds.append((last, placed.host(last, ends=True)))
    begins = [max([at, *(end for launch, end in kernels if launch < mark)]) for mark, at in bounds]
    return {step: begins[i + 1] - begins[i] for i, (step, _) in enumerate(marks)}
