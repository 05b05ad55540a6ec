"""cudaMalloc and cudaFree in steady state.

Why it matters: a steady step reuses the caching allocator's memory. Calls of the driver's allocator mean that the cache
was flushed and refilled, each time with a synchronisation.
How it is measured: time in which the device is idle, the host has not asked for work, and the thread that launches next
is inside cudaMalloc, cudaFree or kin. The cost is the median over ranks of the median over steps; it fires on any call
after warm-up whose cost is above 1 % of the step.
What to do: PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, a lower peak, fixed shapes; remove
torch.cuda.empty_cache() from the loop.
"""

from __future__ import annotations

from collections.abc import Iterator

from rankscope.analyzers.analysis import Analysis
from rankscope.analyzers.coverage import need_launches
from rankscope.analyzers.findings import Evidence, Finding
from rankscope.analyzers.pricing import SILENT, of_the_step, step_share, time_finding

TITLE = "Allocator retries"
CALLS = 0  # a step after warm-up; source: torchtitan's metrics, which warn of num_alloc_retries > 0


def check(analysis: Analysis) -> Iterator[Finding]:
    """Report allocator calls that the device waits for."""
    need_launches(analysis)
    cost, calls = analysis.cost_ns("allocator_ns"), analysis.cost_ns("allocator_calls")
    if calls <= CALLS or step_share(analysis, cost) <= SILENT:
        return
    examples = analysis.exemplars("allocator")
    yield time_finding(
        analysis,
        message=f"The device waits for the driver's memory allocator {of_the_step(analysis, cost)}.",
        cost_ns=cost,
        evidence=[
            Evidence("idle during allocator calls a step", round(cost), "ns", examples),
            Evidence("allocator calls a step", round(calls), "count"),
        ],
        advice=(
            "Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, lower the memory peak, and keep empty_cache() "
            "out of the loop."
        ),
        where=f"Costliest in {examples[0].name}." if examples else "In allocator calls.",
    )
