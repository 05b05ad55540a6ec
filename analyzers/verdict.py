"""The whole diagnosis in one plain sentence, no stronger than what was recorded."""

from __future__ import annotations

from dataclasses import replace

from rankscope.analyzers.findings import SEVERITIES, Diagnosis, Finding
from rankscope.analyzers.pulse.tables import STAGE_LONGER
from rankscope.analyzers.quantities import duration, plural, ranks, share

_CAUSES = {
    "compute": ("it computes longer than its peers", "they compute longer than their peers"),
    "data": ("it waits longer for its data than its peers", "they wait longer for their data than their peers"),
    "host": ("its host asks for work later than its peers'", "their hosts ask for work later than their peers'"),
    "thermal": ("its device runs hot, below its peers' clock", "their devices run hot, below their peers' clock"),
    "power": ("its device lacks power, below its peers' clock", "their devices lack power, below their peers' clock"),
}
_WHY_UNKNOWN = ("the trace does not show why", "the trace does not show why")
_WHY_NO_STAGE = "no single stage of it shows why"
_LOSSES = {
    "data-starved": "{} is starved for data",
    "exposed-collectives": "{} is communication that no compute hides",
    "host-bound-launch": "for {} the device waits for the host to launch work",
    "sync-points": "{} is lost after calls that wait for the device",
    "checkpoint-stall": "{} is spent waiting for checkpoints",
    "pageable-copy": "{} is spent in copies from memory that is not pinned",
    "allocator-retries": "{} is spent in the driver's memory allocation",
    "slow-link": "{} is lost to a link that is slower than its like",
}
_ENDED = ("early-end", "hang")  # a run that did not end well says so before what it lost
_UNSURE = 0.5  # at most this confidence: said in the sentence


def verdict(diagnosis: Diagnosis) -> str:
    """One sentence: what costs most, whether a rank holds the others up, or that nothing was found."""
    if not diagnosis.attribution and diagnosis.pulse is None:
        return _nothing(diagnosis)
    ends = [finding for rule in _ENDED for finding in diagnosis.findings if finding.rule == rule]
    ended = min(ends, key=lambda finding: SEVERITIES.index(finding.severity), default=None)
    if ended is not None:
        rest = replace(diagnosis, findings=[finding for finding in diagnosis.findings if finding.rule not in _ENDED])
        return f"{ended.message.rstrip('. ')}. {_judged(rest)}"
    return _judged(diagnosis)


def _nothing(diagnosis: Diagnosis) -> str:
    if diagnosis.job is None:
        return f"Nothing could be measured: {plural(len(diagnosis.run.files), 'file')} held no timed event."
    led = f"{diagnosis.findings[0].message.rstrip('. ')}. " if diagnosis.findings else ""
    return f"{led}Nothing could be measured: no rank recorded a step."


def _judged(diagnosis: Diagnosis) -> str:
    timed = [finding for finding in diagnosis.findings if finding.kind == "time" and finding.cost_ns is not None]
    others = [finding for finding in diagnosis.findings if finding not in timed]
    if not timed:
        return _nothing_timed(diagnosis, others)
    first, rest = timed[0], timed[1:]
    clauses = [_clause(diagnosis, first)]
    late = next((finding for finding in rest if finding.rule == "straggler-rank"), None)
    if late is not None:
        clauses.append(_uncapitalised(_clause(diagnosis, late)))
    elif (
        first.rule != "straggler-rank" and "straggler-rank" in diagnosis.rules.passed and diagnosis.collectives.matched
    ):
        clauses.insert(0, "No single rank holds the others up")
        clauses[1] = _uncapitalised(clauses[1])
    return "; ".join(clauses) + _reservation(diagnosis, first)


def _clause(diagnosis: Diagnosis, finding: Finding) -> str:
    if finding.rule == "straggler-rank" and finding.ranks:
        return _straggler(diagnosis, finding)
    loss = _LOSSES.get(finding.rule)
    if loss is None or finding.cost_ns is None:
        return finding.message.rstrip(". ")
    clause = loss.format(_part_of_step(diagnosis, finding.cost_ns))
    if finding.ranks:
        clause += f" on {ranks(finding.ranks)}"
    return clause[0].upper() + clause[1:]


def _straggler(diagnosis: Diagnosis, finding: Finding) -> str:
    many = len(finding.ranks) > 1
    others = len(set(diagnosis.run.ranks) - set(finding.ranks))
    waiters = {0: "its peers", 1: "the other rank"}.get(others, f"the other {others}")
    why = _CAUSES.get(finding.cause or "", _WHY_UNKNOWN)[many]
    if not diagnosis.attribution:
        staged = finding.cause in ("thermal", "power") or finding.stage is None
        why = why if staged and finding.cause != "unknown" else STAGE_LONGER.get(finding.stage or "", _WHY_NO_STAGE)
    subject = ranks(finding.ranks)
    verb = "make" if many else "makes"
    step = diagnosis.run.median_step_ns
    whole = f"every {duration(step)} step" if step and diagnosis.run.steps else "the capture"
    return f"{subject[0].upper()}{subject[1:]} {verb} {waiters} wait {duration(finding.cost_ns)} of {whole}: {why}"


def _part_of_step(diagnosis: Diagnosis, cost_ns: int) -> str:
    step = diagnosis.run.median_step_ns
    return f"{share(cost_ns / step) if step else duration(cost_ns)} of the {_whole(diagnosis)}"


def _whole(diagnosis: Diagnosis) -> str:
    return "step" if diagnosis.run.steps else "capture"


def _cleared(diagnosis: Diagnosis) -> bool:
    """Several ranks were compared, and none holds the others up."""
    return "straggler-rank" in diagnosis.rules.passed and len(diagnosis.run.ranks) > 1


def _nothing_timed(diagnosis: Diagnosis, others: list[Finding]) -> str:
    rules = diagnosis.rules
    if others:
        lead = others[0].message.rstrip(". ")
        return f"{lead}; no loss of time above 1 % of the {_whole(diagnosis)} was found{_reservation(diagnosis, None)}"
    looked = len(rules.passed)
    if not looked:
        return f"No rule could be judged{_unjudged(diagnosis)}. {_time_only(diagnosis)}"
    found = f"Nothing above 1 % of the {_whole(diagnosis)} was found"
    unsure = next((entry for entry in rules.inconclusive if entry.rule == "straggler-rank"), None)
    if unsure is not None and not diagnosis.attribution:
        return f"Whether a rank holds the others up cannot be told: {unsure.reason}{_reservation(diagnosis, None)}"
    if _cleared(diagnosis):
        found = f"No single rank holds the others up, and {_uncapitalised(found)}"
    return found + _reservation(diagnosis, None)


def _time_only(diagnosis: Diagnosis) -> str:
    return f"Where the time of {plural(len(diagnosis.run.ranks), 'rank')} went is below."


def _unjudged(diagnosis: Diagnosis) -> str:
    rules = diagnosis.rules
    parts = []
    if rules.skipped and not diagnosis.attribution:
        parts.append(f"{plural(len(rules.skipped), 'rule')} need a trace or more signals")
    elif rules.skipped:
        parts.append(f"{plural(len(rules.skipped), 'rule')} had no signal")
    if rules.inconclusive:
        parts.append(f"{plural(len(rules.inconclusive), 'rule')} could not tell")
    if rules.failed:
        parts.append(f"{plural(len(rules.failed), 'rule')} failed")
    return f"; {', '.join(parts)}" if parts else ""


def _reservation(diagnosis: Diagnosis, first: Finding | None) -> str:
    """What limits the sentence: rules without a signal, no steps, few steps, ranks that were not recorded."""
    text = "" if first is not None else _unjudged(diagnosis)
    run = diagnosis.run
    limits = []
    if not diagnosis.attribution:
        limits.append("by the pulse alone")
    if run.steps == 0:
        limits.append("the trace has no step marks")
    elif first is not None and first.confidence <= _UNSURE:
        limits.append(f"only {plural(len(run.usable_steps), 'step')} could be judged")
    if run.missing_ranks and run.world_size:
        limits.append(f"{len(run.ranks)} of {run.world_size} ranks recorded")
    if not limits:
        return f"{text}."
    unsure = "low confidence: " if first is not None and first.confidence <= _UNSURE else ""
    return f"{text} ({unsure}{'; '.join(limits)})."


def _uncapitalised(clause: str) -> str:
    return clause[0].lower() + clause[1:] if clause[1:2].islower() else clause
