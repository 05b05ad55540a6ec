"""rankscope's collector costs more than its budget, so that the run is not quite the one that would run without it.

Why it matters: a profiler that is always on must not be what makes training slow, and its figures should be those of the
run, not of itself.
How it is measured: the time inside the collector's hooks, what each call costs beside it, and the time of its own
thread, over the steps' wall time; on the rank where that share is largest, against the budget that the run was given
(1 % unless asked for otherwise). The start and windows of the profiler are left out.
What to do: switch off the probe that costs most (RANKSCOPE_<PROBE>=0), log values less often, or give the steps more
work: the cost is by step and by call. Above its budget the collector thins itself out, which the report says.
"""

from __future__ import annotations

from collections.abc import Iterator

from rankscope.analyzers.analysis import Analysis
from rankscope.analyzers.findings import Evidence, Finding, MissingSignal
from rankscope.analyzers.pricing import unpriced
from rankscope.analyzers.pulse.collector import collector_report
from rankscope.analyzers.pulse.either import RECORD, recording_of
from rankscope.analyzers.quantities import ranks, share

TITLE = "Own overhead"
BUDGET_SHARE = 0.01  # of the step, where the run does not say: what the collector promises (collector/options.py)
GRAVE_TIMES = 5.0  # the budget (ours): then the figures are the collector's as much as the run's
READS = ("pulse",)


def check(analysis: Analysis) -> Iterator[Finding]:
    """Report ranks on which the collector costs more than its budget."""
    report = collector_report(recording_of(analysis.run))
    if report.overhead_share is None or analysis.pulse is None:
        raise MissingSignal("no rank recorded what the collector cost", RECORD)
    budget = BUDGET_SHARE if report.budget_share is None else report.budget_share
    over = sorted(int(rank) for rank, own in report.overhead_by_rank.items() if own > budget)
    if not over:
        return
    every = f"; it listens to one step in {report.every} by now" if report.every > 1 else ""
    yield unpriced(
        analysis.pulse,
        "validity",
        "warning" if report.overhead_share > GRAVE_TIMES * budget else "note",
        message=(
            f"The collector itself costs up to {share(report.overhead_share)} of the step, above its budget of "
            f"{share(budget)}{every}."
        ),
        evidence=[
            Evidence("largest share of a rank's steps", report.overhead_share, "share"),
            Evidence("budget", budget, "share"),
            Evidence("ranks above it", len(over), "count"),
            Evidence("time inside hooks a step", report.hooks_ns or 0, "ns"),
        ],
        advice="Switch off the probes that this run does not need: RANKSCOPE_<PROBE>=0, by the names in this report.",
        where=f"On {ranks(over)}.",
        expected="The steps are what they are without rankscope.",
    )
