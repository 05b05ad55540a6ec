"""The profiler itself slows down what it measures.

Why it matters: shares of host and idle time come out too large, and advice drawn from them may not help the real run.
How it is measured: time in which the device waits for launches during the profiler's own overhead (rows of category
`overhead`: buffers requested and flushed, instrumentation), as a share of the step. What Python stacks, shapes and
memory events cost the host leaves no row and is not seen.
What to do: profile fewer steps, leave with_stack, record_shapes and profile_memory off, and compare the step time with
one of a run without the profiler.
"""

from __future__ import annotations

from collections.abc import Iterator

from rankscope.analyzers.analysis import Analysis
from rankscope.analyzers.coverage import ACTIVITIES
from rankscope.analyzers.findings import Evidence, Finding, MissingSignal
from rankscope.analyzers.pricing import step_share, unpriced
from rankscope.analyzers.quantities import share

TITLE = "Profiler distortion"
TRIGGER_SHARE = 0.05  # of the step (ours): as much as many a rule's threshold


def check(analysis: Analysis) -> Iterator[Finding]:
    """Report steps that the profiler makes longer."""
    if not any(record.facts.has_profiler for record in analysis.records):
        raise MissingSignal("the profiler's own overhead was not recorded", ACTIVITIES)
    spent = analysis.cost_ns("profiler_idle_ns")
    of_step = step_share(analysis, spent)
    if of_step <= TRIGGER_SHARE:
        return
    yield unpriced(
        analysis,
        "validity",
        "warning",
        message=f"The device waits for the profiler itself in {share(of_step)} of the step: real steps are shorter.",
        evidence=[
            Evidence("waiting during the profiler's overhead a step", round(spent), "ns"),
            Evidence("of the step", of_step, "share"),
        ],
        advice="Profile fewer steps, with with_stack, record_shapes and profile_memory off.",
        where="In rows of category overhead.",
        expected="Host and idle times in the report are those of the run without the profiler.",
    )
