"""Calls that wait for the device, after which it stands idle until the host has caught up.

Why it matters: the copy or the call itself is short; its price is the refill, since a drained device has nothing
queued.
How it is measured: idle gaps that begin while the thread that launches next is in a blocking call (synchronise calls,
synchronous copies, .item()); what loader, checkpoint, garbage collection, allocator and collectives of a CPU backend do
not claim of such a gap is the cost. The cost is the median over ranks of the median over steps.
What to do: keep losses and metrics on the device and read them every k steps or with a non-blocking copy; drop
torch.cuda.synchronize() and print(loss) from the loop; avoid nonzero and boolean indexing in it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rankscope.analyzers.analysis import Analysis, typical
from rankscope.analyzers.coverage import need_launches
from rankscope.analyzers.findings import Evidence, Finding
from rankscope.analyzers.pricing import SILENT, of_the_step, step_share, time_finding
from rankscope.analyzers.quantities import count

TITLE = "Synchronisation points"
COPIES = 10  # device-to-host copies a capture; source: TraceLens's copy advice (AMD-AGI/TraceLens, Agent/Analysis)
TRIGGER_SHARE = 0.05  # of the step, whatever the count; same source
DEVICE_SYNCS = 1  # a step in steady state; source: Nsight Systems' cuda_api_sync recipe


def check(analysis: Analysis) -> Iterator[Finding]:
    """Report the refills after blocking calls."""
    need_launches(analysis)
    refill = analysis.part("sync_ns") - analysis.part("sync_told_ns")
    cost = float(np.median(typical(refill))) if len(refill) else 0.0
    of_step = step_share(analysis, cost)
    copies, steps = analysis.cost_ns("device_to_host_copies"), max(len(analysis.usable), 1)
    syncs = analysis.cost_ns("device_syncs")
    if of_step <= SILENT or (copies * steps <= COPIES and syncs < DEVICE_SYNCS and of_step <= TRIGGER_SHARE):
        return
    examples = analysis.exemplars("sync")
    items = analysis.cost_ns("item_calls")
    yield time_finding(
        analysis,
        message=f"After calls that wait for the device it stands idle {of_the_step(analysis, cost)}.",
        cost_ns=cost,
        evidence=[
            Evidence("idle after a drain a step", round(cost), "ns", examples),
            Evidence("drains a step", round(analysis.cost_ns("drains")), "count"),
            Evidence("blocking calls a step", round(analysis.cost_ns("blocking_calls")), "count"),
            Evidence(".item() operators a step", round(items), "count"),
            Evidence("device-to-host copies a step", round(copies), "count"),
            Evidence("full device synchronisations a step", round(syncs), "count"),
        ],
        advice=(
            "Read losses and metrics every k steps, or copy them with non_blocking=True and read them later; drop "
            "synchronize() from the loop."
        ),
        where=f"Costliest after {examples[0].name}; {count(round(analysis.cost_ns('drains')))} drains a step."
        if examples
        else "In the step.",
    )
