"""Matrix products in full fp32 on devices that have TF32.

Why it matters: from Ampere on tensor cores multiply fp32 operands rounded to TF32 about eight times as fast; torch's
default for matrix products is not to.
How it is measured: device time of kernels whose name says fp32 and names no tensor core instruction (sgemm), on devices
of compute capability 8.0 and up; convolutions, for which TF32 is on by default, are left out. The cost is seven eighths
of it, what TF32 returns at best: the median over ranks of the median over steps.
What to do: torch.set_float32_matmul_precision("high"), or bf16 under torch.autocast where the model allows it.
"""

from __future__ import annotations

from collections.abc import Iterator

from rankscope.analyzers.analysis import Analysis
from rankscope.analyzers.capability import AMPERE, lowest_capability
from rankscope.analyzers.coverage import need_launches
from rankscope.analyzers.findings import Evidence, Finding
from rankscope.analyzers.pricing import of_the_step, step_share, time_finding

TITLE = "Matrix products in full fp32"
TRIGGER_SHARE = 0.01  # of the step; source: any use, as torch.profiler's FP32MatMulPattern, above the silent share
RETURNS = 7 / 8  # of their time, at best; source: NVIDIA A100 data sheet, 19.5 TFLOPS in FP32 against 156 in TF32


def check(analysis: Analysis) -> Iterator[Finding]:
    """Report the time that TF32 would return."""
    need_launches(analysis)
    capability = lowest_capability(analysis)
    spent = analysis.cost_ns("fp32_matmul_ns")
    cost = RETURNS * spent
    if capability is None or capability < AMPERE or step_share(analysis, cost) <= TRIGGER_SHARE:
        return
    yield time_finding(
        analysis,
        message=f"Matrix products in full fp32 take up to {of_the_step(analysis, cost)} that TF32 would return.",
        cost_ns=cost,
        evidence=[
            Evidence("matrix products in full fp32 a step", round(spent), "ns"),
            Evidence("computation a step", round(analysis.cost_ns("kernel_ns")), "ns"),
        ],
        advice='torch.set_float32_matmul_precision("high"), or bf16 under torch.autocast.',
        where="In kernels named sgemm; see the kernels of the report.",
        sure=0.8,
    )
