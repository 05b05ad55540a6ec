"""Two-byte matrix products whose sizes are not multiples of eight.

Why it matters: tensor cores are fed 16 bytes at a time. Where a matrix's rows do not begin at such a boundary, the
library falls back to kernels that load one, two or four elements at once.
How it is measured: device time of fp16 and bf16 matrix products whose kernel's name states an alignment below eight
elements (align1, ldg2). The cost is half of it, the median over ranks of the median over steps.
What to do: pad the vocabulary, hidden sizes and the batch to multiples of 8, better of 64.
"""

from __future__ import annotations

from collections.abc import Iterator

from rankscope.analyzers.analysis import Analysis
from rankscope.analyzers.capability import lowest_capability
from rankscope.analyzers.coverage import need_launches
from rankscope.analyzers.findings import Evidence, Finding
from rankscope.analyzers.pricing import of_the_step, step_share, time_finding

TITLE = "Unaligned matrix products"
TRIGGER_SHARE = 0.01  # of the step; source: any use, as torch.profiler's MatMulDimInFP16Pattern, above the silent share
RETURNS = 0.5  # of their time (ours): an aligned kernel is about twice as fast; bandwidth-bound products gain less


def check(analysis: Analysis) -> Iterator[Finding]:
    """Report the time that padding would return."""
    need_launches(analysis)
    capability = lowest_capability(analysis)
    spent = analysis.cost_ns("unaligned_matmul_ns")
    cost = RETURNS * spent
    if capability is None or step_share(analysis, cost) <= TRIGGER_SHARE:
        return
    yield time_finding(
        analysis,
        message=(
            f"Matrix products with sizes that are no multiples of 8 take up to {of_the_step(analysis, cost)} that "
            "padding would return."
        ),
        cost_ns=cost,
        evidence=[
            Evidence("unaligned two-byte matrix products a step", round(spent), "ns"),
            Evidence("computation a step", round(analysis.cost_ns("kernel_ns")), "ns"),
        ],
        advice="Pad the vocabulary, hidden sizes and the batch to multiples of 8, better of 64.",
        where="In kernels whose name says align1, align2 or align4; see the kernels of the report.",
        sure=0.8,
    )
