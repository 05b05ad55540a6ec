"""Copies to the device from memory that is not pinned.

Why it matters: such a copy goes through a staging buffer at a fraction of the link's bandwidth, and blocks the host
however it is called.
How it is measured: exposed time of host-to-device copies whose name says Pageable, where at least one of them is larger
than 1 MB. The cost is the median over ranks of the median over steps.
What to do: DataLoader(pin_memory=True) and tensor.to(device, non_blocking=True).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rankscope.analyzers.analysis import Analysis
from rankscope.analyzers.coverage import ACTIVITIES
from rankscope.analyzers.findings import Evidence, Finding, MissingSignal
from rankscope.analyzers.pricing import SILENT, of_the_step, step_share, time_finding
from rankscope.analyzers.quantities import size

TITLE = "Pageable copies"
LARGE_BYTES = 1_000_000  # one copy (ours; after Nsight Systems' cuda_memcpy_async recipe, which lists them all)


def check(analysis: Analysis) -> Iterator[Finding]:
    """Report exposed copies from pageable memory."""
    if not any(record.facts.has_device for record in analysis.records):
        raise MissingSignal("no device activity was recorded", ACTIVITIES)
    largest = analysis.part("pageable_bytes")
    largest_bytes = float(np.nanmax(largest)) if largest.size and not np.isnan(largest).all() else 0.0
    cost = analysis.cost_ns("pageable_ns")
    if largest_bytes <= LARGE_BYTES or step_share(analysis, cost) <= SILENT:
        return
    yield time_finding(
        analysis,
        message=f"Copies from memory that is not pinned take {of_the_step(analysis, cost)}.",
        cost_ns=cost,
        evidence=[
            Evidence("exposed copies from pageable memory a step", round(cost), "ns", analysis.exemplars("pageable")),
            Evidence("largest copy", round(largest_bytes), "bytes"),
        ],
        advice="Pin the batches: DataLoader(pin_memory=True), then tensor.to(device, non_blocking=True).",
        where=f"Host-to-device copies of up to {size(largest_bytes)}.",
    )
