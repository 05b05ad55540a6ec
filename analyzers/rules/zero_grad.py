"""Gradients are set to zero instead of being dropped.

Why it matters: filling every gradient with zeros, and adding to it afterwards, moves bytes for nothing.
How it is measured: aten::zero_ inside zero_grad, and the device time of what it launched: the median over ranks of the
median over steps.
What to do: optimizer.zero_grad(set_to_none=True), torch's default since 2.0.
"""

from __future__ import annotations

from collections.abc import Iterator

from rankscope.analyzers.analysis import Analysis
from rankscope.analyzers.coverage import need_launches
from rankscope.analyzers.findings import Evidence, Finding
from rankscope.analyzers.pricing import SILENT, of_the_step, step_share, time_finding
from rankscope.analyzers.quantities import count

TITLE = "Gradients set to zero"
CALLS = 0  # a step; source: presence, as torch.profiler's GradNotSetToNonePattern


def check(analysis: Analysis) -> Iterator[Finding]:
    """Report the time spent on zeros."""
    need_launches(analysis)
    calls, cost = analysis.cost_ns("zero_calls"), analysis.cost_ns("zero_grad_ns")
    if calls <= CALLS or step_share(analysis, cost) <= SILENT:
        return
    yield time_finding(
        analysis,
        message=f"Filling gradients with zeros takes {of_the_step(analysis, cost)}.",
        cost_ns=cost,
        evidence=[
            Evidence("device time of zero_grad a step", round(cost), "ns"),
            Evidence("aten::zero_ in zero_grad a step", round(calls), "count"),
        ],
        advice="optimizer.zero_grad(set_to_none=True).",
        where=f"In the optimizer's zero_grad(), {count(round(calls))} fills a step.",
    )
