"""What a run directory adds to a Diagnosis: stages, the job, the collector, machines (docs/accounting.md, section 12)."""

from __future__ import annotations

from dataclasses import dataclass, field

# ---- stages ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StageTime:
    """One stage of one rank, medians over the judged steps; None: not known.

    `wait_ns`: blocked in collectives; `queued_ns`: ready to run without a processor; `local_ns`: its own, without either.
    """

    rank: int
    stage: str
    median_ns: int
    wait_ns: int | None
    queued_ns: int | None
    local_ns: int | None
    device_ns: int | None


@dataclass(frozen=True, slots=True)
class FrontierShare:
    """How much of the group's step one rank's stage is: mean over the judged steps, and in how many it was furthest.

    `beyond_ns`: of that, its own time beyond the median of its peers'; None: it has none.
    """

    rank: int
    stage: str
    ns: int
    beyond_ns: int | None
    steps: int


@dataclass(frozen=True, slots=True)
class StepSeries:
    """Steps over time: one value a span of steps, the median in it. `first_steps`: the number of each span's first step.

    Maps are by rank, as text. `local_ns` is None where own time is not known.
    """

    first_steps: list[int]
    steps_a_span: int
    wall_ns: dict[str, list[int]]
    local_ns: dict[str, list[int]] | None


@dataclass(frozen=True, slots=True)
class LoggedSummary:
    """One value that the code logged, over all ranks and steps. None: it was never a finite number."""

    name: str
    count: int
    first: float | None
    last: float | None
    least: float | None
    most: float | None
    not_finite: int


@dataclass(frozen=True, slots=True)
class PulseReport:
    """The pulse. `frontier_ns` is the mean step that the ranks' own times make up, `rest_ns` what is left of it to the
    mean wall time: moving bytes, and waiting that no rank's own time explains.
    """

    ranks: list[int]
    steps: int  # that all ranks have
    judged_steps: int
    every: int  # only every so many-th step was looked at
    median_step_ns: int | None
    stages: list[StageTime]
    frontier: list[FrontierShare]
    frontier_ns: int | None
    rest_ns: int | None
    doubt: str | None  # why own time cannot be told from waiting
    series: StepSeries | None
    logged: list[LoggedSummary] = field(default_factory=list)


# ---- the job ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RankEnd:
    """How one process ended. `ended`: as its manifest says it; None: it is running, or was killed before it could say."""

    rank: int
    attempt: int
    host: str | None
    ended: str | None
    steps: int
    last_unix_ns: int | None  # of its last sign of life
    path: str


@dataclass(frozen=True, slots=True)
class JobReport:
    """The job over all its attempts. `goodput_share`: productive over wall; productive are whole steps, without
    checkpoints, and without those that a restart had to do again.
    """

    attempts: int
    restarts: int
    wall_ns: int | None
    productive_ns: int | None
    goodput_share: float | None
    lost_steps: int
    skipped_steps: int
    overflows: int
    not_finite: dict[str, int]
    checkpoints: int
    checkpoint_ns: int
    checkpoint_age_ns: int | None  # when the run ended, or was last heard of
    steps_since_checkpoint: int | None
    ends: list[RankEnd]


# ---- the collector ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ProbeState:
    """What became of one probe on these ranks. `state`: on, off, skipped, failed."""

    name: str
    state: str
    reason: str
    ranks: list[int]


@dataclass(frozen=True, slots=True)
class CollectorReport:
    """The collector's own account. `overhead_share`: of the steps' wall time, on the rank where it is largest."""

    modes: list[str]
    probes: list[ProbeState]
    overhead_share: float | None
    budget_share: float | None
    overhead_by_rank: dict[str, float]
    hooks_ns: int | None  # a step, median over ranks and steps
    every: int  # thinned out: it listened to every so many-th step, on the rank where it did so most
    windows: int  # of the profiler
    bytes: int


# ---- machines --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SampledFigure:
    """One figure of one rank, over its samples."""

    rank: int
    name: str
    samples: int
    median: float
    least: float
    most: float
    last: float
