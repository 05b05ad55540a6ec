"""The verdict: one sentence and the few figures that frame it."""

from __future__ import annotations

from statistics import median

from rankscope.analyzers.findings import SEVERITIES, Diagnosis
from rankscope.analyzers.quantities import plural, ranks, share_of
from rankscope.reports.blocks import Fact, Facts, Quantity, Section, Status, Text, Verdict
from rankscope.reports.rank_time import RankTime, rank_times

ORDER = 0


def build(diagnosis: Diagnosis) -> Section:
    """Always there."""
    times = rank_times(diagnosis)
    facts = [
        *_step(diagnosis, times),
        *_shares(times, "step" if diagnosis.run.steps else "capture"),
        *_worth(diagnosis),
        _machine(diagnosis),
    ]
    told = Verdict(status(diagnosis), *_parted(diagnosis.verdict))
    cautions = tuple(Text(text, "caution") for text in _cautions(diagnosis))
    return Section("verdict", "Verdict", (told, Facts(tuple(facts)), *cautions))


def _parted(sentence: str) -> tuple[str, str]:
    """The sentence, and the parenthesis at its end, where there is one."""
    head, opening, tail = sentence.rpartition(" (")
    return (f"{head}.", tail[:-2]) if opening and tail.endswith(").") else (sentence, "")


def status(diagnosis: Diagnosis) -> Status:
    """The gravest finding's severity; `ok` only if something was checked and nothing found."""
    found = {finding.severity for finding in diagnosis.findings}
    for severity in SEVERITIES:
        if severity in found:
            return severity
    measured = diagnosis.attribution or diagnosis.pulse
    return "ok" if measured and diagnosis.rules.passed else "unknown"


def _step(diagnosis: Diagnosis, times: list[RankTime]) -> list[Fact]:
    run = diagnosis.run
    if run.median_step_ns is not None and run.steps:
        note = f"median of {plural(len(run.usable_steps), 'judged step')}"
        return [Fact("step", Quantity(run.median_step_ns, "ns"), note)]
    if times:
        return [Fact("capture", Quantity(run.wall_ns, "ns"), "no step marks in the trace")]
    return []


def _shares(times: list[RankTime], whole_name: str) -> list[Fact]:
    if not times:
        return []
    whole = sum(time.window_ns for time in times)
    if not whole:
        return []
    compute = sum(time.family_ns("compute") for time in times)
    facts = [
        Fact(
            "compute",
            Quantity(compute / whole, "share"),
            f"of the {whole_name}{', mean over ranks' if len(times) > 1 else ''}",
        )
    ]
    waits = [time.family_ns("wait") for time in times]
    if any(waits):
        middle = median(waits)
        note = f"{share_of(middle, whole / len(times))} of the {whole_name}, median rank"
        facts.append(Fact("waiting for ranks", Quantity(middle, "ns"), note))
    return facts


def _worth(diagnosis: Diagnosis) -> list[Fact]:
    first = next((f for f in diagnosis.findings if f.cost_ns is not None), None)
    if first is None or first.gpu_hours_per_day is None:
        return []
    note = f"lost to {first.rule}"
    if first.money_per_day is not None:
        note += f", {first.money_per_day:,.2f} in money"
    return [Fact("GPU-hours a day", Quantity(first.gpu_hours_per_day, "gpu_hours"), note)]


def _machine(diagnosis: Diagnosis) -> Fact:
    run = diagnosis.run
    of_world = f" of {run.world_size}" if run.world_size and run.world_size != len(run.ranks) else ""
    devices = ", ".join(run.devices[:2]) + (" and others" if len(run.devices) > 2 else "")
    note = " · ".join(part for part in (devices or _no_device(diagnosis), run.backend or "") if part)
    return Fact("ranks", f"{len(run.ranks)}{of_world}", note)


def _no_device(diagnosis: Diagnosis) -> str:
    return "no device in the trace" if diagnosis.attribution else "no device"


def _cautions(diagnosis: Diagnosis) -> list[str]:
    """What a reader must know before believing a figure."""
    run = diagnosis.run
    cautions = []
    if run.missing_ranks:
        cautions.append(f"Not recorded: {ranks(run.missing_ranks)}. What happened there is unknown to every figure.")
    if diagnosis.rules.failed:
        cautions.append(f"{plural(len(diagnosis.rules.failed), 'rule')} failed; see coverage.")
    truncated = sum(file.truncated for file in run.files)
    if truncated:
        cautions.append(f"{plural(truncated, 'file')} ended before its end: what was whole is used.")
    return cautions
