"""Device memory is all but full.

Why it matters: one longer sequence, one fragmented allocation, and the run dies; before that the allocator flushes its
cache over and over.
How it is measured: the most memory that the caching allocator had reserved in a step, against the memory of the device:
the largest, over ranks, of the median over steps.
What to do: activation checkpointing, sharding of parameters and optimizer state, a smaller micro-batch,
PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True against fragmentation.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rankscope.analyzers.analysis import Analysis, typical
from rankscope.analyzers.capability import RECORD, memory_bytes
from rankscope.analyzers.findings import Evidence, Finding, MissingSignal
from rankscope.analyzers.pricing import unpriced
from rankscope.analyzers.quantities import share, size

TITLE = "Memory at the limit"
TRIGGER_SHARE = 0.90  # of the device; source: torch-tb-profiler's memory advice (pytorch/kineto, tb_plugin)
CRITICAL_SHARE = 0.97  # source: TraceML's memory policy
MEMORY = "torch.profiler.profile(profile_memory=True)"


def check(analysis: Analysis) -> Iterator[Finding]:
    """Report the fullest device."""
    reserved, allocated = typical(analysis.part("reserved_peak_bytes")), analysis.by_place("allocated_peak_bytes")
    if not reserved.any():
        raise MissingSignal("no memory events of a device were recorded", MEMORY)
    capacity = [memory_bytes(analysis.records[place.lane], place.device) for place in analysis.places]
    if not any(capacity):
        raise MissingSignal("no file says how much memory its devices have", RECORD)
    full = np.array([r / c if c else 0.0 for r, c in zip(reserved, capacity, strict=True)])
    most = int(full.argmax())
    if full[most] <= TRIGGER_SHARE:
        return
    place = analysis.places[most]
    yield unpriced(
        analysis,
        "risk",
        "critical" if full[most] > CRITICAL_SHARE else "warning",
        message=f"Device memory is {share(float(full[most]))} full at its peak: the run may die of a longer sequence.",
        evidence=[
            Evidence("reserved at the peak of a step", round(float(reserved[most])), "bytes"),
            Evidence("allocated at the peak of a step", round(float(allocated[most])), "bytes"),
            Evidence("memory of the device", capacity[most] or 0, "bytes"),
            Evidence("rank with most", place.rank, "count"),
            Evidence("devices above the threshold", int((full > TRIGGER_SHARE).sum()), "count"),
        ],
        advice=(
            "Activation checkpointing, sharding or a smaller micro-batch; "
            "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True where much more is reserved than allocated."
        ),
        where=f"{size(float(reserved[most]))} reserved, {size(float(allocated[most]))} of it allocated.",
        expected="Room for longer inputs, and an allocator that need not flush.",
    )
