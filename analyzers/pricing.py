"""From a cost to a finding: the severity ladder, and the words every rule about time shares (docs/accounting.md,
section 10).
"""

from __future__ import annotations

from collections.abc import Sequence, Sized
from dataclasses import replace
from typing import Final, Protocol

from rankscope.analyzers.findings import Evidence, Finding, Kind, Severity
from rankscope.analyzers.quantities import duration, share

SILENT: Final = 0.01  # of the step; below it no rule of kind `time` speaks
WARNING: Final = 0.05
CRITICAL: Final = 0.15
UNSURE: Final = 0.5  # the most confidence there can be on fewer than three steps, or (about a rank) without step marks
FEW: Final = 3


class Judged(Protocol):
    """What a finding is judged on: an Analysis of traces, or a Pulse."""

    @property
    def step_ns(self) -> float:
        """Wall time of a step."""
        ...

    @property
    def usable(self) -> Sized:
        """The judged steps, one entry each."""
        ...

    @property
    def steps(self) -> list[int]:
        """Their numbers; empty where they have none."""
        ...


def step_share(judged: Judged, cost_ns: float) -> float:
    """A cost as a share of the step's wall time; 0 when there is no step."""
    return cost_ns / judged.step_ns if judged.step_ns else 0.0


def severity(of_step: float) -> Severity:
    """note < 5 %, warning 5 to 15 %, critical > 15 % of the step."""
    if of_step < WARNING:
        return "note"
    return "warning" if of_step <= CRITICAL else "critical"


def confidence(judged: Judged, full: float = 0.9) -> float:
    """Less on few steps."""
    return full if len(judged.usable) >= FEW else min(full, UNSURE)


def of_the_step(judged: Judged, cost_ns: float) -> str:
    """`38.2 ms of every 210 ms step (18.2 %)`, or of the whole file where it has no steps."""
    whole = f"every {duration(judged.step_ns)} step" if judged.steps else f"the {duration(judged.step_ns)} recorded"
    return f"{duration(cost_ns)} of {whole} ({share(step_share(judged, cost_ns))})"


def time_finding(
    judged: Judged,
    *,
    message: str,
    cost_ns: float,
    evidence: Sequence[Evidence],
    advice: str,
    where: str,
    ranks: Sequence[int] = (),
    sure: float = 0.9,
) -> Finding:
    """A finding of kind `time` with its severity, confidence and expected result.

    The rule's id is filled in by `diagnose`.
    """
    few = len(judged.usable) < FEW
    seen = len(judged.usable)
    if few and judged.steps:
        message = f"{message[:-1]}, judged on {seen} step{'' if seen == 1 else 's'} only."
    step = judged.step_ns
    return Finding(
        rule="",
        kind="time",
        severity=severity(step_share(judged, cost_ns)),
        message=message,
        ranks=list(ranks),
        steps=judged.steps,
        cost_ns=round(cost_ns),
        cause=None,
        confidence=confidence(judged, sure),
        evidence=list(evidence),
        advice=advice,
        where=where,
        expected=(
            f"The step takes {duration(max(step - cost_ns, 0))} instead of {duration(step)} at best; costs overlap, "
            "so they do not add."
        ),
    )


def unpriced(
    judged: Judged,
    kind: Kind,
    severity: Severity,
    *,
    message: str,
    evidence: Sequence[Evidence],
    advice: str,
    where: str,
    expected: str,
    ranks: Sequence[int] = (),
) -> Finding:
    """A finding of kind `risk` or `validity`, which has no price."""
    return Finding(
        rule="",
        kind=kind,
        severity=severity,
        message=message,
        ranks=list(ranks),
        steps=judged.steps,
        cost_ns=None,
        cause=None,
        confidence=confidence(judged),
        evidence=list(evidence),
        advice=advice,
        where=where,
        expected=expected,
    )


def unsure(finding: Finding) -> Finding:
    """The same finding, said with at most half the confidence."""
    return replace(finding, confidence=min(finding.confidence, UNSURE))
