"""Devices with tensor cores that never use them.

Why it matters: most of the arithmetic such a device can do is in its tensor cores.
How it is measured: matrix products and convolutions run, in full fp32 by their kernels' names, on devices of compute
capability 7.0 and up, and no kernel of the whole run names a tensor core instruction. What `fp32-matmul` prices is left
out. The cost is seven eighths of their time, what mixed precision returns at best: the median over ranks of the median
over steps.
What to do: torch.autocast("cuda", dtype=torch.bfloat16), or float16 with a gradient scaler on devices before Ampere.
"""

from __future__ import annotations

from collections.abc import Iterator

from rankscope.analyzers.analysis import Analysis
from rankscope.analyzers.capability import AMPERE, VOLTA, lowest_capability
from rankscope.analyzers.coverage import need_launches
from rankscope.analyzers.findings import Evidence, Finding
from rankscope.analyzers.one_rank.row_times import RowTimes
from rankscope.analyzers.pricing import SILENT, of_the_step, step_share, time_finding

TITLE = "Tensor cores unused"
USED_NS = 0  # of tensor core time in the run; source: torch-tb-profiler's advice (pytorch/kineto, tb_plugin)
RETURNS = (
    7 / 8
)  # of their time, at best; source: NVIDIA V100 data sheet, 15.7 TFLOPS in FP32 against 125 on tensor cores


def check(analysis: Analysis) -> Iterator[Finding]:
    """Report the time that mixed precision would return."""
    need_launches(analysis)
    capability = lowest_capability(analysis)
    used = sum(int(record[RowTimes].tensor_core_ns.sum()) for record in analysis.records)
    spent = analysis.cost_ns("eligible_ns")
    if capability is not None and capability >= AMPERE:
        spent -= analysis.cost_ns("fp32_matmul_ns")
    cost = RETURNS * spent
    if capability is None or capability < VOLTA or used > USED_NS or step_share(analysis, cost) <= SILENT:
        return
    yield time_finding(
        analysis,
        message=f"No kernel uses tensor cores; mixed precision would return up to {of_the_step(analysis, cost)}.",
        cost_ns=cost,
        evidence=[
            Evidence("matrix products and convolutions in full fp32 a step", round(spent), "ns"),
            Evidence("kernels on tensor cores in the whole run", used, "ns"),
        ],
        advice=(
            'Mixed precision: torch.autocast("cuda", dtype=torch.bfloat16)'
            + ("." if capability >= AMPERE else " does not suit these devices; use float16 with torch.amp.GradScaler.")
        ),
        where="In matrix products and convolutions; see the kernels of the report.",
        sure=0.8,
    )
