"""Kernels so short that the device spends its time between them.

Why it matters: starting a kernel costs the host some microseconds and leaves the device a gap; below 10 us of work the
gaps weigh as much as the work.
How it is measured: the share of compute kernels shorter than 10 us, and the idle gaps of up to 100 us right before such
kernels, without what a drain, the loader, a checkpoint or garbage collection claims; a longer gap has a cause of its own
(`host-bound-launch`). The cost is the median over ranks of the median over steps.
What to do: torch.compile or CUDA graphs, fused and foreach optimizers, fused kernels for chains of elementwise
operators, a larger micro-batch.
"""

from __future__ import annotations

from collections.abc import Iterator

from rankscope.analyzers.analysis import Analysis
from rankscope.analyzers.coverage import need_launches
from rankscope.analyzers.findings import Evidence, Finding
from rankscope.analyzers.pricing import SILENT, of_the_step, step_share, time_finding
from rankscope.analyzers.quantities import count, share

TITLE = "Tiny kernels"
KERNELS = 100  # of them a step (ours): fewer are not worth fusing
TRIGGER_SHARE = 0.3  # of the compute kernels (ours); tiny is below 10 us, source: TraceLens's short-kernel advice


def speaks(analysis: Analysis) -> bool:
    """Whether there are so many of them, and so much idle time before them, that it is worth a finding."""
    kernels, tiny = analysis.cost_ns("kernels"), analysis.cost_ns("tiny_kernels")
    many = tiny >= KERNELS and tiny > TRIGGER_SHARE * kernels
    return many and step_share(analysis, analysis.cost_ns("tiny_gap_ns")) > SILENT


def check(analysis: Analysis) -> Iterator[Finding]:
    """Report the gaps before kernels that are too short."""
    need_launches(analysis)
    if not speaks(analysis):
        return
    kernels, tiny = analysis.cost_ns("kernels"), analysis.cost_ns("tiny_kernels")
    cost = analysis.cost_ns("tiny_gap_ns")
    yield time_finding(
        analysis,
        message=f"Before kernels shorter than 10 µs the device stands idle {of_the_step(analysis, cost)}.",
        cost_ns=cost,
        evidence=[
            Evidence("idle before tiny kernels a step", round(cost), "ns"),
            Evidence("tiny kernels a step", round(tiny), "count"),
            Evidence("of the compute kernels", tiny / kernels, "share"),
        ],
        advice=(
            "Fuse: torch.compile, CUDA graphs, a foreach or fused optimizer, fused kernels for elementwise chains; or a "
            "larger micro-batch."
        ),
        where=f"{count(round(tiny))} of {count(round(kernels))} kernels a step ({share(tiny / kernels)}).",
    )
