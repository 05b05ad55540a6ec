"""One run made, diagnosed and held against what was planted in it."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path

from accuracy_runs import LEAST, RECORDED, Run, recorded_paths

import rankscope
from rankscope.analyzers.findings import Finding
from rankscope.simulator import Simulation, simulate
from rankscope.simulator.splicing import Clock, Plant, PlantKind, RecordedRun, Spliceable


@dataclass(frozen=True)
class Spoken:
    """A finding, as far as it is judged."""

    rule: str
    kind: str
    ranks: tuple[int, ...]


@dataclass(frozen=True)
class Outcome:
    """What was found in a run. `share`: what of the step it is longer by; None where the fault has no such size."""

    run: Run
    found: tuple[Spoken, ...]
    share: float | None
    failed: tuple[str, ...] = ()  # rules that ended in an error

    @cached_property
    def rules(self) -> frozenset[str]:
        """The rules that found something."""
        return frozenset(spoken.rule for spoken in self.found)

    @property
    def time_rules(self) -> list[str]:
        """Those of kind time."""
        return [spoken.rule for spoken in self.found if spoken.kind == "time"]

    @property
    def accused(self) -> list[tuple[int, ...]]:
        """The ranks that were named."""
        return [spoken.ranks for spoken in self.found if spoken.ranks]

    @property
    def large_enough(self) -> bool:
        """Whether the fault takes at least a tenth of the step, or has no such size."""
        return self.share is None or self.share >= LEAST

    @property
    def rule_first(self) -> bool:
        """Whether the planted rule is the first of its kind (docs/accounting.md, section 10)."""
        mine = next((spoken for spoken in self.found if spoken.rule == self.run.rule), None)
        return mine is not None and mine == next(s for s in self.found if s.kind == mine.kind)

    @property
    def rank_first(self) -> bool:
        """Whether the first finding that names ranks names those that are late, and no other."""
        return bool(self.accused) and self.accused[0] == self.run.ranks

    @property
    def wrong(self) -> str:
        """What went wrong, in a line; empty where nothing did."""
        said = ", ".join(f"{s.rule}{list(s.ranks) if s.ranks else ''}" for s in self.found) or "nothing"
        job = self.run.scenario
        where = f"{self.run.name} {self.run.recorded}" if job is None else f"{self.run.name}, {job.ranks} ranks"
        size = "" if self.share is None else f" {self.share:.1%}"
        label = f"seed {self.run.seed} {where} {list(self.run.ranks)}{size}: {said}"
        if self.failed:
            return f"{label}; failed: {', '.join(self.failed)}"
        if not self.run.rule:
            return label if self.time_rules or self.accused else ""
        rank = not self.run.ranks or self.run.rule != "straggler-rank" or self.rank_first
        return "" if not self.large_enough or (self.rule_first and rank) else label


def judge(run: Run) -> Outcome:
    """Make the run in a folder that is gone afterwards, and diagnose it."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        return _simulated(run, folder) if run.scenario else _spliced(run, folder)


def _simulated(run: Run, folder: Path) -> Outcome:
    assert run.scenario
    simulation = simulate(run.scenario)
    simulation.write(folder)
    share = None
    if run.share:
        wall = wall_ns(simulation)
        share = 1 - wall_ns(simulate(replace(run.scenario, faults=()))) / wall  # the same noise, without the fault
    found, failed = diagnosed(folder)
    return Outcome(run, found, share, failed)


def wall_ns(simulation: Simulation) -> float:
    """The mean step."""
    windows = simulation.truth.windows
    return sum(window.end_ns - window.begin_ns for window in windows) / len(windows)


def _spliced(run: Run, folder: Path) -> Outcome:
    recorded, before = original(run.recorded)
    share = None
    if run.plant is None:
        spliced = recorded.splice()
    elif run.plant is PlantKind.CLOCK:
        clock = Clock(offset_ns=(run.seed % 200_001 - 100_000) * 100_000, drift_ppb=run.seed % 40_001 - 20_000)
        spliced = recorded.splice(Plant(run.plant, run.plant_rank, clock=clock))
    else:
        spliced = recorded.plant_share(run.plant, run.plant_rank, run.share)
        share = spliced.share
    spliced.write(folder)
    found, failed = diagnosed(folder)
    known = {(spoken.rule, spoken.ranks) for spoken in before}
    return Outcome(run, tuple(s for s in found if (s.rule, s.ranks) not in known), share, failed)


@lru_cache(maxsize=len(RECORDED))
def original(name: str) -> tuple[Spliceable, tuple[Spoken, ...]]:
    """A recorded run, and what is found in it as it is."""
    paths = recorded_paths(name)
    found, _ = diagnosed(*paths)
    return Spliceable(RecordedRun.read(paths)), found


def diagnosed(*paths: Path) -> tuple[tuple[Spoken, ...], tuple[str, ...]]:
    """What is found below these paths, in the order of the report; and the rules that failed."""
    diagnosis = rankscope.diagnose(*paths, cache=False, jobs=1)
    return _spoken(diagnosis.findings), tuple(failed.rule for failed in diagnosis.rules.failed)


def _spoken(findings: Sequence[Finding]) -> tuple[Spoken, ...]:
    return tuple(Spoken(finding.rule, finding.kind, tuple(finding.ranks)) for finding in findings)
