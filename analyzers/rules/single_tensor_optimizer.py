"""An optimizer that updates one parameter after the other.

Why it matters: several launches for every parameter, most of them tiny, where one launch for all would do.
How it is measured: at least ten in-place operators (add_, mul_, addcmul_, addcdiv_, lerp_) a step inside the step() of
an optimizer of torch that has a foreach implementation, and none of foreach or fused. The cost is the idle time from
the first to the last kernel that step() launched, the median over ranks of the median over steps.
What to do: foreach=True, or fused=True where the optimizer has it.
"""

from __future__ import annotations

from collections.abc import Iterator

from rankscope.analyzers.analysis import Analysis
from rankscope.analyzers.coverage import need_launches
from rankscope.analyzers.findings import Evidence, Finding
from rankscope.analyzers.pricing import SILENT, of_the_step, step_share, time_finding
from rankscope.analyzers.quantities import count

TITLE = "Single-tensor optimizer"
CALLS = 10  # a step (ours): a handful of updates by hand is no optimizer. After torch.profiler's OptimizerSingleTensorPattern


def speaks(analysis: Analysis) -> bool:
    """Whether there is such an optimizer, and so much idle time inside it that it is worth a finding."""
    calls, many = analysis.cost_ns("single_tensor_calls"), analysis.cost_ns("many_tensor_calls")
    return calls >= CALLS and many <= 0 and step_share(analysis, analysis.cost_ns("optimizer_idle_ns")) > SILENT


def check(analysis: Analysis) -> Iterator[Finding]:
    """Report the gaps inside a single-tensor optimizer."""
    need_launches(analysis)
    if not speaks(analysis):
        return
    calls, many = analysis.cost_ns("single_tensor_calls"), analysis.cost_ns("many_tensor_calls")
    cost = analysis.cost_ns("optimizer_idle_ns")
    yield time_finding(
        analysis,
        message=(
            "The optimizer updates one parameter after the other and leaves the device idle "
            f"{of_the_step(analysis, cost)}."
        ),
        cost_ns=cost,
        evidence=[
            Evidence("idle inside the optimizer a step", round(cost), "ns"),
            Evidence("in-place operators in the optimizer a step", round(calls), "count"),
            Evidence("foreach and fused operators a step", round(many), "count"),
        ],
        advice="Build the optimizer with foreach=True, or fused=True where it has it.",
        where=f"In the optimizer's step(), {count(round(calls))} operators a step.",
    )
