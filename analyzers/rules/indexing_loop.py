"""A Python loop that picks one row of a tensor after the other.

Why it matters: every pass through such a loop costs Python and launch time for a scrap of work.
How it is measured: ten or more repetitions in a row of one sequence of at most eight top-level operators that holds
aten::select, on the training thread, and the time in which the device waits for launches meanwhile. The cost is the
median over ranks of the median over steps.
What to do: index with a tensor of indices, gather, scatter or a mask; torch.vmap; or move the loop to where no device
waits for it.
"""

from __future__ import annotations

from collections.abc import Iterator

from rankscope.analyzers.analysis import Analysis
from rankscope.analyzers.coverage import need_launches
from rankscope.analyzers.findings import Evidence, Finding
from rankscope.analyzers.pricing import SILENT, of_the_step, step_share, time_finding
from rankscope.analyzers.quantities import count

TITLE = "Indexing loop"
ITERATIONS = 10  # a step; source: torch.profiler's ForLoopIndexingPattern


def check(analysis: Analysis) -> Iterator[Finding]:
    """Report the time for which the device waits for indexing loops."""
    need_launches(analysis)
    iterations, cost = analysis.cost_ns("loop_iterations"), analysis.cost_ns("loop_idle_ns")
    if iterations < ITERATIONS or step_share(analysis, cost) <= SILENT:
        return
    yield time_finding(
        analysis,
        message=f"The device waits for loops that index a tensor row by row {of_the_step(analysis, cost)}.",
        cost_ns=cost,
        evidence=[
            Evidence("waiting for launches during such loops a step", round(cost), "ns"),
            Evidence("iterations a step", round(iterations), "count"),
        ],
        advice="Index once with a tensor of indices, gather, scatter or a mask; or torch.vmap.",
        where=f"Around aten::select, {count(round(iterations))} iterations a step; with_stack=True records the line.",
    )
