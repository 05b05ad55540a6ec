"""The device is idle because the host launches work too late.

Why it matters: a faster device would not make such a step faster; the host is the limit.
How it is measured: idle time before kernels whose launch came after the device had run dry: Python and framework time
with nothing better to blame (loader, checkpoint, garbage collection, allocator, synchronisation, compilation, indexing
loops, collectives on the CPU, the profiler's overhead, gaps before tiny kernels and inside a single-tensor optimizer
are told apart), plus the latency from the launch to the start. The cost is the median over ranks of the median over
steps.
What to do: CUDA graphs or torch.compile(mode="reduce-overhead"), fused and foreach optimizers, fewer small operations,
a larger micro-batch; move logging and bookkeeping out of the loop.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rankscope.analyzers.analysis import Analysis, typical
from rankscope.analyzers.coverage import ACTIVITIES
from rankscope.analyzers.findings import Evidence, Finding, MissingSignal
from rankscope.analyzers.pricing import of_the_step, step_share, time_finding
from rankscope.analyzers.quantities import duration
from rankscope.analyzers.rules import single_tensor_optimizer, tiny_kernels

TITLE = "Host-bound launches"
TRIGGER_SHARE = 0.15  # of the step; source: TraceLens's idle-time advice (AMD-AGI/TraceLens, Agent/Analysis)


def check(analysis: Analysis) -> Iterator[Finding]:
    """Report idle time that the host could have filled."""
    if not any(record.facts.has_device for record in analysis.records):
        raise MissingSignal("no device activity was recorded, so there is no device that could starve", ACTIVITIES)
    if not any(record.facts.has_runtime for record in analysis.records):
        raise MissingSignal("no launches were recorded", ACTIVITIES)
    waiting = np.maximum(analysis.part("other_ns") - analysis.part("other_told_ns"), 0)
    starved, latency = float(np.median(typical(waiting))) if len(waiting) else 0.0, analysis.cost_ns("launch_ns")
    tiny = analysis.cost_ns("tiny_wait_ns") if tiny_kernels.speaks(analysis) else 0.0
    optimizer = analysis.cost_ns("optimizer_idle_ns") if single_tensor_optimizer.speaks(analysis) else 0.0
    cost = max(starved + latency - max(tiny, optimizer), 0.0)  # the optimizer's gaps may be those before tiny kernels
    if step_share(analysis, cost) <= TRIGGER_SHARE:
        return
    kernels = analysis.cost_ns("kernels")
    busy = analysis.cost_ns("kernel_ns")
    yield time_finding(
        analysis,
        message=f"The device waits for the host to launch work {of_the_step(analysis, cost)}.",
        cost_ns=cost,
        evidence=[
            Evidence("idle before the launch a step", round(starved), "ns"),
            Evidence("idle from launch to start a step", round(latency), "ns"),
            Evidence("of both, before tiny kernels and priced there", round(tiny), "ns"),
            Evidence("of both, inside a single-tensor optimizer and priced there", round(optimizer), "ns"),
            Evidence("compute kernels a step", round(kernels), "count"),
            Evidence("mean compute kernel", round(busy / kernels) if kernels else 0, "ns"),
        ],
        advice=(
            'Launch less or in bulk: torch.compile(mode="reduce-overhead") or CUDA graphs, foreach/fused '
            "optimizer, a larger micro-batch."
        ),
        where=f"Between kernels of {duration(busy / kernels)} on average."
        if kernels
        else "No compute kernel runs in a step.",
    )
