"""The findings, each a story in four steps with the figures it rests on."""

from __future__ import annotations

from rankscope.analyzers.findings import Diagnosis, Evidence, Finding
from rankscope.analyzers.quantities import plural, ranks, share_of, spans
from rankscope.reports.blocks import Cell, Column, Fact, Grid, Name, Quantity, Section, Story, Text

ORDER = 10
_FIGURES = (Column("evidence", numeric=False), Column("value"))
_EVENTS = (
    Column("event to look at", numeric=False),
    Column("rank"),
    Column("ts", doc="as in its file: microseconds"),
    Column("duration"),
)


def build(diagnosis: Diagnosis) -> Section:
    """Always there: that nothing was found is a finding too."""
    findings = diagnosis.findings
    if not findings:
        return Section("findings", "Findings", (Text(_none(diagnosis)),))
    timed = sum(finding.cost_ns is not None for finding in findings)
    lead = "Ordered by what they cost a step. Costs overlap: they rank, they do not add." if timed > 1 else ""
    return Section("findings", "Findings", tuple(_story(diagnosis, finding) for finding in findings), lead)


def _none(diagnosis: Diagnosis) -> str:
    rules = diagnosis.rules
    told = [f"{plural(len(rules.passed), 'rule')} passed"]
    if rules.skipped:
        told.append(f"{len(rules.skipped)} had no signal")
    if rules.inconclusive:
        told.append(f"{len(rules.inconclusive)} could not tell")
    if rules.failed:
        told.append(f"{len(rules.failed)} failed")
    return f"None. {', '.join(told)}."


def _story(diagnosis: Diagnosis, finding: Finding) -> Story:
    steps = (
        ("Problem", finding.message),
        ("Where", finding.where),
        ("What to do", finding.advice),
        ("Expected result", finding.expected),
    )
    return Story(
        status=finding.severity,
        title=_title(finding),
        rule=finding.rule,
        cost=Quantity(finding.cost_ns, "ns"),
        facts=tuple(_facts(diagnosis, finding)),
        steps=tuple((name, text) for name, text in steps if text),
        evidence=_evidence(finding.evidence),
    )


def _title(finding: Finding) -> str:
    words = finding.rule.replace("-", " ")
    title = words[:1].upper() + words[1:]
    if finding.ranks:
        title += f": {ranks(finding.ranks)}"
    return f"{title}, by {finding.cause}" if finding.cause and finding.cause != "unknown" else title


def _facts(diagnosis: Diagnosis, finding: Finding) -> list[Fact]:
    step = diagnosis.run.median_step_ns
    facts = []
    if finding.cost_ns is not None:
        unit = "step" if diagnosis.run.steps else "capture"
        facts.append(
            Fact(
                "cost a step" if unit == "step" else "cost",
                Quantity(finding.cost_ns, "ns"),
                f"{share_of(finding.cost_ns, step)} of the {unit}",
            )
        )
    if finding.gpu_hours_per_day is not None:
        facts.append(Fact("GPU-hours a day", Quantity(finding.gpu_hours_per_day, "gpu_hours")))
    if finding.money_per_day is not None:
        facts.append(Fact("money a day", Quantity(finding.money_per_day, "money")))
    facts.append(Fact("confidence", Quantity(finding.confidence, "share")))
    if finding.steps:
        facts.append(Fact("steps", spans(finding.steps)))
    if finding.kind != "time":
        facts.append(Fact("kind", finding.kind))
    return facts


def _evidence(evidence: list[Evidence]) -> tuple[Grid, ...]:
    figures = tuple((entry.label, _value(entry)) for entry in evidence)
    events: tuple[tuple[Cell, ...], ...] = tuple(
        (
            Name(event.name),
            str(event.rank),
            f"{event.start_ns // 1000}.{event.start_ns % 1000:03d}",
            Quantity(event.dur_ns, "ns"),
        )
        for entry in evidence
        for event in entry.events
    )
    grids = (Grid("", _FIGURES, figures, brief=10),) if figures else ()
    return (*grids, Grid("", _EVENTS, events, brief=3)) if events else grids


def _value(entry: Evidence) -> Cell:
    if isinstance(entry.value, str):
        return entry.value
    return Quantity(entry.value, "count" if entry.unit == "text" else entry.unit)
