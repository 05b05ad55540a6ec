"""Runs the rules over an analysis and writes the Diagnosis. One rule's failure never costs another's findings."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from rankscope.analyzers.analysis import Analysis
from rankscope.analyzers.caveats import caveats
from rankscope.analyzers.clock_report import clock_report
from rankscope.analyzers.coverage import coverage
from rankscope.analyzers.findings import (
    SEVERITIES,
    CannotTell,
    Diagnosis,
    FailedRule,
    Finding,
    InconclusiveRule,
    MissingSignal,
    Rule,
    RuleOutcomes,
    SkippedRule,
)
from rankscope.analyzers.intervals import Ints
from rankscope.analyzers.measured import CollectivesReport, FileReport, KernelTotal, RunFacts, WaitedFor
from rankscope.analyzers.one_rank import kernel_kind
from rankscope.analyzers.one_rank.row_times import KernelTotals
from rankscope.analyzers.pulse.collector import collector_report
from rankscope.analyzers.pulse.coverage import WINDOW
from rankscope.analyzers.pulse.job import job_report
from rankscope.analyzers.pulse.report import pulse_report, sampled
from rankscope.analyzers.run import Run
from rankscope.analyzers.verdict import verdict

HEAVIEST = 50  # kernels in the report, and at least LEAST of each kind, so that a misfiled one is seen
LEAST = 5


def analyse(run: Run, only_steps: Collection[int] | None = None) -> Analysis:
    """The analysis of one run, computed as it is asked for."""
    return Analysis(run, only_steps)


def diagnose(analysis: Analysis, rules: Sequence[Rule], *, gpu_hour_price: float | None = None) -> Diagnosis:
    """Everything a report says. `gpu_hour_price`: money an hour of one device costs, in any currency."""
    facts = run_facts(analysis)
    findings, outcomes = apply_rules(analysis, rules)
    findings = [price(f, analysis, facts, gpu_hour_price) for f in findings]
    diagnosis = Diagnosis(
        run=facts,
        other_runs=list(analysis.run.other_runs),
        attribution=analysis.rows,
        collectives=collectives_report(analysis),
        clock=clock_report(analysis),
        kernels=kernel_report(analysis),
        peers=[replace(p, rank=loaded.rank) for loaded in analysis.run.ranks for p in loaded.record.facts.peers],
        findings=sorted(findings, key=_order),
        rules=outcomes,
        warnings=caveats(analysis),
        coverage=coverage(analysis),
        **recorded(analysis),
    )
    return replace(diagnosis, verdict=verdict(diagnosis))


def _order(finding: Finding) -> tuple[bool, float, int, str]:
    """By cost, descending; then those without a cost, critical first; ties by rule."""
    return (finding.cost_ns is None, -(finding.cost_ns or 0), SEVERITIES.index(finding.severity), finding.rule)


def apply_rules(analysis: Analysis, rules: Sequence[Rule]) -> tuple[list[Finding], RuleOutcomes]:
    """Run each rule and note what became of it."""
    findings: list[Finding] = []
    outcomes = RuleOutcomes([], [], [], [])
    for rule in rules:
        if not analysis.ranks and not rule.without_traces:
            outcomes.skipped.append(SkippedRule(rule.id, "no trace was recorded, only the pulse", WINDOW))
            continue
        try:
            found = [replace(f, rule=rule.id) for f in rule.check(analysis)]
        except MissingSignal as missing:
            outcomes.skipped.append(SkippedRule(rule.id, str(missing), missing.record))
        except CannotTell as doubt:
            outcomes.inconclusive.append(InconclusiveRule(rule.id, str(doubt)))
        except Exception as error:  # noqa: BLE001 - a rule's bug is shown in the report, not raised
            outcomes.failed.append(FailedRule(rule.id, f"{type(error).__name__}: {error}"))
        else:
            findings += found
            if not found:
                outcomes.passed.append(rule.id)
    return findings, outcomes


def price(finding: Finding, analysis: Analysis, facts: RunFacts, gpu_hour_price: float | None) -> Finding:
    """GPU-hours a day: cost over step wall, times the run's devices, times 24. None on CPU-only runs."""
    step_ns = analysis.step_ns or (analysis.pulse.step_ns if analysis.pulse else 0)
    if finding.cost_ns is None or not step_ns or not facts.device_count:
        return finding
    hours = finding.cost_ns / step_ns * facts.device_count * 24
    return replace(
        finding, gpu_hours_per_day=hours, money_per_day=None if gpu_hour_price is None else hours * gpu_hour_price
    )


def run_facts(analysis: Analysis) -> RunFacts:
    """What was run, by its traces and its run directory together."""
    facts, recording, pulse = _traced_facts(analysis), analysis.run.recording, analysis.pulse
    if recording is None:
        return facts
    manifests = [process.manifest for process in recording.processes]
    ranks = sorted({*facts.ranks, *recording.ranks})
    facts = replace(
        facts,
        ranks=ranks,
        world_size=facts.world_size or recording.world_size,
        missing_ranks=sorted(set(recording.missing_ranks) - set(ranks)),
        backend=facts.backend or next((m.backend for m in manifests if m.backend), None),
        devices=facts.devices or sorted({m.device for m in manifests if m.device}),
        device_count=facts.device_count or sum(m.device is not None for m in manifests),
    )
    if pulse is None or facts.usable_steps:
        return facts
    begins = pulse.column("begin_ns")
    ends = begins + pulse.wall_ns
    known = begins.size > 0 and not np.isnan(begins).any()
    return replace(
        facts,
        steps=len(pulse.numbers),
        usable_steps=pulse.steps,
        median_step_ns=round(pulse.step_ns) if pulse.steps else None,
        wall_ns=max(0, round(float((ends.max(axis=1) - begins.min(axis=1)).max()))) if known else facts.wall_ns,
    )


def recorded(analysis: Analysis) -> dict[str, Any]:
    """The keys of a Diagnosis that a run directory fills."""
    recording, hardware = analysis.run.recording, analysis.hardware
    if recording is None or hardware is None:
        return {}
    return {
        "pulse": None if analysis.pulse is None else pulse_report(analysis.pulse),
        "job": job_report(recording),
        "collector": collector_report(recording),
        "nvml": sampled(hardware.nvml),
        "host": sampled(hardware.host),
    }


def _traced_facts(analysis: Analysis) -> RunFacts:
    """What was run, as its traces say it."""
    run, places = analysis.run, analysis.places
    metas = [loaded.record.meta for loaded in run.ranks]
    whole = [row.window_ns for row in analysis.rows if row.step is None]
    devices = sum(place.device is not None for place in places)
    numbered = [c for c in analysis.columns if c is not None]
    return RunFacts(
        path=run.path,
        id=run.id,
        world_size=run.world_size,
        ranks=analysis.ranks,
        missing_ranks=list(run.missing_ranks),
        backend=next((m.backend for m in metas if m.backend), None),
        devices=sorted({name for m in metas for _, name in m.devices if name}),
        steps=len(numbered),
        wall_ns=max(whole, default=0),
        files=[
            FileReport(
                path=loaded.path,
                rank=loaded.rank,
                rank_source=loaded.rank_source,
                events=loaded.record.meta.events,
                set_aside=sum(loaded.record.facts.set_aside.values()),
                skipped_events=loaded.record.meta.skipped_events,
                truncated=loaded.record.meta.truncated,
            )
            for loaded in run.ranks
        ],
        started_unix_ns=run.started_unix_ns,
        device_count=devices + (len(run.missing_ranks) if devices else 0),
        usable_steps=analysis.steps,
        median_step_ns=round(analysis.step_ns) if analysis.usable else None,
    )


def collectives_report(analysis: Analysis) -> CollectivesReport:
    """Matching, and who made whom wait, over the whole file."""
    matches, waits = analysis.matches, analysis.waits

    def by_rank(values: Sequence[int] | Ints) -> dict[str, int]:
        return {str(rank): int(value) for rank, value in zip(analysis.ranks, values, strict=True)}

    waited = waits.waited.sum(axis=1)
    pairs = np.argwhere(waits.waited_for >= 0.5)
    pairs = pairs[np.argsort(-waits.waited_for[pairs[:, 0], pairs[:, 1]], kind="stable")]
    return CollectivesReport(
        matched=len(matches.found),
        unmatched=matches.unmatched,
        waited_ns=by_rank(waited),
        caused_ns=by_rank(waits.caused.sum(axis=1)),
        alone_ns=by_rank(waits.alone.sum(axis=1)),
        hidden_wait_ns=by_rank([sum(p.hidden_wait_ns for p in parts) for parts in analysis.lanes]),
        last_arrivals=by_rank(waits.last_arrivals),
        by_group=analysis.traffic,
        waited_for=[
            WaitedFor(analysis.ranks[w], analysis.ranks[c], round(float(waits.waited_for[w, c]))) for w, c in pairs
        ],
        dependency_wait_ns=by_rank(_dependency(analysis)),
        inferred=sum(m.inferred for m in matches.found),
        margin=matches.margin,
    )


def _dependency(analysis: Analysis) -> list[int]:
    """Receivers' exposed waits: pieces that belong to point-to-point records."""
    result = []
    for parts in analysis.lanes:
        lengths = [
            int((p.piece_end - p.piece_start)[analysis.splits.dependency[p.piece_record]].sum())
            for p in parts
            if len(p.piece_start)
        ]
        result.append(sum(lengths))
    return result


def kernel_report(analysis: Analysis) -> list[KernelTotal]:
    """The heaviest kernels over all ranks."""
    totals: dict[tuple[str, int], list[int]] = {}
    for record in analysis.records:
        table = record[KernelTotals]
        for i in range(len(table)):
            key = (record.names[int(table.name_id[i])], int(table.kind[i]))
            count, total, low, high = (
                int(table.count[i]),
                int(table.total_ns[i]),
                int(table.min_ns[i]),
                int(table.max_ns[i]),
            )
            seen = totals.setdefault(key, [0, 0, low, high])
            totals[key] = [seen[0] + count, seen[1] + total, min(seen[2], low), max(seen[3], high)]
    ordered = sorted(totals.items(), key=lambda item: (-item[1][1], item[0]))
    shown: dict[int, int] = {}
    result = []
    for position, ((name, kind), (count, total, low, high)) in enumerate(ordered):
        if position < HEAVIEST or shown.get(kind, 0) < LEAST:
            shown[kind] = shown.get(kind, 0) + 1
            result.append(KernelTotal(name, kernel_kind.KIND_NAMES[kind], count, total, total / count, low, high))
    return result
