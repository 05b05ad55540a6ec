"""What an analysis ends in: the Diagnosis, the only input of every report.

The dataclasses below are the JSON report's schema, key by key (docs/accounting.md, section 11). Keys may be added;
these keep their meaning. Absent knowledge is None, never 0; in maps by rank a missing rank is 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from rankscope.analyzers.measured import ClockFit, CollectivesReport, KernelTotal, OtherRun, Peers, Row, RunFacts
from rankscope.analyzers.pulse.measured import CollectorReport, JobReport, PulseReport, SampledFigure

if TYPE_CHECKING:
    from rankscope.analyzers.analysis import Analysis


Severity = Literal["critical", "warning", "note"]
Kind = Literal["time", "risk", "validity"]
Cause = Literal["compute", "data", "host", "thermal", "power", "unknown"]
Unit = Literal["ns", "bytes", "share", "count", "bytes_per_s", "text"]
SEVERITIES: tuple[Severity, ...] = ("critical", "warning", "note")


# ---- findings --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class EventRef:
    """Where to look: an event of one rank, in nanoseconds after that file's base."""

    rank: int
    name: str
    start_ns: int
    dur_ns: int


@dataclass(frozen=True, slots=True)
class Evidence:
    """One number that supports a finding, with its unit, so that a reader can check it."""

    label: str
    value: int | float | str
    unit: Unit
    events: list[EventRef] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Finding:
    """One cause of lost time or trust. `cost_ns` is wall time a step; costs overlap, so they rank and never add.

    The four-step story a report tells: problem (`message`), where (`where`), what to do (`advice`), expected result
    (`expected`).
    """

    rule: str
    kind: Kind
    severity: Severity
    message: str  # one sentence with the numbers in it
    ranks: list[int]  # the ranks it names; empty: no particular rank
    steps: list[int]
    cost_ns: int | None
    cause: Cause | None
    confidence: float  # 0..1
    evidence: list[Evidence]
    advice: str
    where: str = ""
    expected: str = ""
    gpu_hours_per_day: float | None = None
    money_per_day: float | None = None  # with --gpu-hour-price
    stage: str | None = None  # of the pulse, in which the rank is late; None: not known, or not about a stage


@dataclass(frozen=True, slots=True)
class SkippedRule:
    """A rule without its signal; `record` is one copyable line that records it."""

    rule: str
    reason: str
    record: str


@dataclass(frozen=True, slots=True)
class InconclusiveRule:
    """A rule that has its signal and cannot tell."""

    rule: str
    reason: str


@dataclass(frozen=True, slots=True)
class FailedRule:
    """A rule that raised: a bug of rankscope, shown and not hidden."""

    rule: str
    error: str


@dataclass(frozen=True, slots=True)
class RuleOutcomes:
    """What became of the rules without findings."""

    passed: list[str]
    skipped: list[SkippedRule]
    inconclusive: list[InconclusiveRule]
    failed: list[FailedRule]


@dataclass(frozen=True, slots=True)
class Signal:
    """One kind of data the run may have recorded; `ranks` have it. `record` is the copyable line that records it."""

    name: str
    meaning: str
    ranks: list[int]
    record: str


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """All that the reports show. Findings come in order of cost; the other lists keep it honest."""

    schema_version: int = field(default=1, kw_only=True)
    run: RunFacts
    other_runs: list[OtherRun]
    attribution: list[Row]
    collectives: CollectivesReport
    clock: list[ClockFit]
    kernels: list[KernelTotal]  # heaviest first, every kind represented
    peers: list[Peers]
    findings: list[Finding]
    rules: RuleOutcomes
    warnings: list[str]
    coverage: list[Signal] = field(default_factory=list)
    verdict: str = ""
    pulse: PulseReport | None = None  # this and what follows: of a run directory, None or empty without one
    job: JobReport | None = None
    collector: CollectorReport | None = None
    nvml: list[SampledFigure] = field(default_factory=list)
    host: list[SampledFigure] = field(default_factory=list)


# ---- rules -----------------------------------------------------------------------------------------------------------


class MissingSignal(LookupError):
    """Raised by a rule that lacks its signal: becomes SkippedRule."""

    def __init__(self, reason: str, record: str) -> None:
        super().__init__(reason)
        self.record = record


class CannotTell(LookupError):
    """Raised by a rule that has its signal and cannot judge: becomes InconclusiveRule."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A check: id (its file's name), title, docs (its file's docstring) and a pure function from Analysis to findings.

    `without_traces`: it can judge a run of which only a run directory without traces is there.
    """

    id: str
    title: str
    check: Callable[[Analysis], Iterable[Finding]]
    doc: str
    without_traces: bool = False
