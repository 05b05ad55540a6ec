"""The finding `straggler-rank` from the pulse alone, and what the pulse adds to the one from traces."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from rankscope.analyzers.analysis import Analysis
from rankscope.analyzers.causes import ADVICE, ADVICE_CPU_ONLY
from rankscope.analyzers.findings import CannotTell, Evidence, Finding, MissingSignal
from rankscope.analyzers.pricing import of_the_step, time_finding, unsure
from rankscope.analyzers.pulse.hardware import TEMPERATURE, Hardware
from rankscope.analyzers.pulse.late_rank import LateRank, late_rank
from rankscope.analyzers.pulse.pulse import Pulse
from rankscope.analyzers.pulse.tables import STAGE_LONGER, STAGE_WORDS
from rankscope.analyzers.quantities import duration, share

UNNAMED: Final = "no single stage of it is longer by enough to be the reason"
SURE: Final = 0.9  # a stage is coarser than a trace's events, which may be surer
UNNAMED_SURE: Final = 0.7


def judged(analysis: Analysis, by_traces: Callable[[Analysis], Iterable[Finding]]) -> list[Finding]:
    """What traces and pulse say together, never twice: a trace's finding stands, with the pulse's figures as evidence.

    Raises MissingSignal or CannotTell where neither can say.
    """
    pulse, hardware = analysis.pulse, analysis.hardware
    if pulse is None or hardware is None:
        return list(by_traces(analysis))
    refused: MissingSignal | CannotTell | None = None
    found: list[Finding] = []
    try:
        found = list(by_traces(analysis)) if analysis.ranks else []
    except (MissingSignal, CannotTell) as reason:
        refused = reason
    try:
        late = late_rank(pulse, hardware)
    except (MissingSignal, CannotTell):
        if analysis.ranks and refused is None:
            return found
        raise
    if found:
        return [_with_pulse(finding, late) for finding in found]
    if late is None:
        return []
    finding = finding_of(pulse, hardware, late)
    if analysis.ranks and refused is None:
        seen = Evidence("in the steps that were traced", "no rank stands out", "text")
        finding = unsure(replace(finding, evidence=[*finding.evidence, seen]))
    return [finding]


def finding_of(pulse: Pulse, hardware: Hardware, late: LateRank) -> Finding:
    """The finding that names this rank."""
    words = STAGE_LONGER[late.stage] if late.stage else UNNAMED
    finding = time_finding(
        pulse,
        message=f"Rank {late.rank} makes the others wait {of_the_step(pulse, late.cost_ns)}; {words}.",
        cost_ns=late.cost_ns,
        evidence=_evidence(pulse, hardware, late),
        advice=ADVICE_CPU_ONLY if late.cause == "compute" and not pulse.on_device else ADVICE[late.cause],
        where=_where(pulse, late),
        ranks=[late.rank],
        sure=SURE if late.stage else UNNAMED_SURE,
    )
    finding = replace(finding, cause=late.cause, stage=late.stage)
    return finding if late.tested else unsure(finding)


def _where(pulse: Pulse, late: LateRank) -> str:
    host = next((p.manifest.host for p in pulse.processes if p.rank == late.rank), "")
    place = f"rank {late.rank}" + (f" on {host}" if host else "")
    if late.stage is None:
        return f"{place[0].upper()}{place[1:]}: no stage of its own is longer than its peers' by enough."
    more = late.stage_excess_ns()
    return (
        f"In {STAGE_WORDS[late.stage]} of {place}: {duration(more)} more of its own time a step than the median of its "
        f"peers ({share(more / pulse.step_ns)} of the step)."
    )


def _evidence(pulse: Pulse, hardware: Hardware, late: LateRank) -> list[Evidence]:
    found = [
        Evidence("wall time a step that it alone adds", round(late.cost_ns), "ns"),
        Evidence("stage", late.stage or "not told", "text"),
        Evidence("steps in which it leads", late.leads, "count"),
        Evidence("judged steps", len(pulse.usable), "count"),
    ]
    longer = sorted(late.excess_ns.items(), key=lambda item: -item[1])
    found += [
        Evidence(f"own time in {STAGE_WORDS[stage]} beyond its peers, a step", round(more), "ns")
        for stage, more in longer
        if more > 0
    ]
    if late.queued_ns:
        found.append(Evidence("ready to run without a processor, a step, left out", round(late.queued_ns), "ns"))
    if late.gc_ns is not None and late.gc_ns > 0:
        found.append(Evidence("collects garbage longer than its peers, a step", round(late.gc_ns), "ns"))
    if late.sm_clock_share is not None:
        found.append(Evidence("its SM clock over the median of its peers'", late.sm_clock_share, "share"))
    temperature = hardware.temperature_c(late.rank)
    if temperature is not None:
        found.append(Evidence(f"{TEMPERATURE}, median", temperature, "count"))
    return found


def _with_pulse(finding: Finding, late: LateRank | None) -> Finding:
    """A trace's finding with the pulse's figures beside it."""
    if late is None:
        extra = [Evidence("by the pulse, over all steps", "no rank stands out", "text")]
        return replace(finding, evidence=[*finding.evidence, *extra])
    extra = [
        Evidence(f"by the pulse, over all steps, rank {late.rank} alone adds", round(late.cost_ns), "ns"),
        Evidence("stage, by the pulse", late.stage or "not told", "text"),
    ]
    same = finding.ranks == [late.rank]
    return replace(finding, evidence=[*finding.evidence, *extra], stage=late.stage if same else None)
