"""Coverage: what was checked, what could not be, and the line that records what is missing."""

from __future__ import annotations

from rankscope.analyzers.findings import Diagnosis, Signal
from rankscope.analyzers.quantities import plural, ranks
from rankscope.reports.blocks import Block, Cell, Column, Copyable, Grid, Section, Text

ORDER = 85
MANY = 8  # rules skipped for one reason share a row


def build(diagnosis: Diagnosis) -> Section:
    """Always there: absence is a result."""
    blocks: list[Block] = [_rules(diagnosis)]
    lines: dict[str, Copyable] = {}
    for signal in diagnosis.coverage:
        missing = sorted(set(diagnosis.run.ranks) - set(signal.ranks))
        if missing and signal.record:
            lines.setdefault(signal.record, Copyable(*_missing(signal, missing, diagnosis), signal.record))
    for skipped in diagnosis.rules.skipped:
        if skipped.record:
            lines.setdefault(skipped.record, Copyable(f"{skipped.rule} had no signal", skipped.reason, skipped.record))
    if lines:
        blocks.append(Text("Not recorded, and the line that records it:"))
        blocks += lines.values()
    if diagnosis.coverage:
        blocks.append(_signals(diagnosis))
    return Section("coverage", "Coverage", tuple(blocks), "What was checked, and what this run could not show.")


def _missing(signal: Signal, missing: list[int], diagnosis: Diagnosis) -> tuple[str, str]:
    where = "on no rank" if len(missing) == len(diagnosis.run.ranks) else f"not on {ranks(missing)}"
    return f"{signal.name}: {where}", signal.meaning


def _rules(diagnosis: Diagnosis) -> Grid:
    rules = diagnosis.rules
    found: dict[str, int] = {}
    for finding in diagnosis.findings:
        found[finding.rule] = found.get(finding.rule, 0) + 1
    rows: list[tuple[Cell, ...]] = [(rule, "found", plural(n, "finding")) for rule, n in found.items()]
    rows += [(failed.rule, "failed", f"{failed.error} (a fault of rankscope)") for failed in rules.failed]
    rows += [(unsure.rule, "inconclusive", unsure.reason) for unsure in rules.inconclusive]
    rows += [(rule, "passed", "") for rule in rules.passed]
    by_reason: dict[str, list[str]] = {}
    for skipped in rules.skipped:
        by_reason.setdefault(skipped.reason, []).append(skipped.rule)
    for reason, skips in by_reason.items():
        told = [", ".join(skips)] if len(skips) >= MANY else skips
        rows += [(rule, "skipped", reason) for rule in told]
    columns = (Column("rule", False), Column("outcome", False), Column("why", False))
    return Grid("Rules", columns, tuple(rows), brief=40)


def _signals(diagnosis: Diagnosis) -> Grid:
    everyone = set(diagnosis.run.ranks)
    rows: list[tuple[Cell, ...]] = []
    for signal in diagnosis.coverage:
        have = set(signal.ranks) & everyone
        where = "every rank" if have == everyone and have else ranks(have) if have else "not recorded"
        rows.append((signal.name, where, signal.meaning))
    columns = (Column("signal", False), Column("recorded on", False), Column("what it is for", False))
    return Grid("Signals", columns, tuple(rows), folded=True)
