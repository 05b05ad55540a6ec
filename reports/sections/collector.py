"""The collector: what it cost, what it watched, and what it could not."""

from __future__ import annotations

from rankscope.analyzers.findings import Diagnosis
from rankscope.analyzers.pulse.measured import CollectorReport, ProbeState
from rankscope.analyzers.quantities import ranks, share, size
from rankscope.reports.blocks import Block, Column, Fact, Facts, Grid, Name, Quantity, Section

ORDER = 75
_PROBES = (
    Column("probe", numeric=False),
    Column("state", numeric=False),
    Column("where", numeric=False),
    Column("why", numeric=False),
)


def build(diagnosis: Diagnosis) -> Section | None:
    """None without a run directory."""
    collector = diagnosis.collector
    if collector is None:
        return None
    blocks: list[Block] = [Facts(tuple(_facts(collector)))]
    if collector.probes:
        everyone = set(diagnosis.run.ranks)
        rows = tuple(
            (Name(probe.name), probe.state, _where(probe, everyone), Name(probe.reason)) for probe in collector.probes
        )
        blocks.append(Grid("Probes", _PROBES, rows, brief=12))
    unwell = any(probe.state == "failed" for probe in collector.probes)
    return Section("collector", "The collector", tuple(blocks), _lead(collector), detail=not unwell)


def _lead(collector: CollectorReport) -> str:
    return f"Mode {' and '.join(collector.modes) or 'unknown'}; {size(collector.bytes)} written."


def _facts(collector: CollectorReport) -> list[Fact]:
    budget = f"of a budget of {share(collector.budget_share)}" if collector.budget_share is not None else ""
    note = " ".join(part for part in (budget, "of the step's wall time, largest rank") if part)
    facts = [Fact("own cost", Quantity(collector.overhead_share, "share"), note)]
    if collector.hooks_ns is not None:
        facts.append(Fact("in hooks", Quantity(collector.hooks_ns, "ns"), "a step, the median rank"))
    if collector.every > 1:
        facts.append(Fact("thinned out", f"1 in {collector.every}", "steps are listened to, to keep the budget"))
    facts.append(Fact("windows", Quantity(collector.windows, "count"), "of the profiler, on the rank that has most"))
    return facts


def _where(probe: ProbeState, everyone: set[int]) -> str:
    return "every rank" if set(probe.ranks) >= everyone else ranks(probe.ranks)
