"""Why a rank is late: which part of its own step is longer than its peers', and covers the delay."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

import numpy as np

from rankscope.analyzers.analysis import Analysis
from rankscope.analyzers.findings import Cause

# Parts of a row that can make a rank late, by cause. Waiting and transfer are the others' doing; idle gaps follow from
# the kernels.
PARTS: Final[dict[Cause, tuple[str, ...]]] = {
    "compute": ("kernel_ns", "device_copy_ns", "kernel_gap_ns"),
    "data": ("data_loading_ns", "host_to_device_ns"),
    "host": ("other_ns", "gc_ns", "launch_ns", "sync_ns", "allocator_ns", "checkpoint_ns", "device_to_host_ns"),
}
COVERS: Final = (
    0.5  # of the delay (ours): less explains too little to be called the cause. TraceML asks 80 % of the loader alone.
)

ADVICE: Final[dict[Cause, str]] = {
    "compute": (
        "Compare clocks, temperature and throttling of this device with its peers' (nvidia-smi -q -d PERFORMANCE), "
        "then its share of the work."
    ),
    "data": "Look at this rank's shard, storage path and loader workers; the model and the network are not the cause.",
    "host": (
        "Look at this rank's host process: garbage collection, logging, other processes on its cores, pinning "
        "(numactl)."
    ),
    "thermal": "Cool this device (airflow, fans, dust, its neighbours' heat), or swap it; its clock is below its peers'.",
    "power": "Compare this device's power cap and supply with its peers' (nvidia-smi -q -d POWER); its clock is below theirs.",
    "unknown": "Record this rank with stacks (with_stack=True) and its device's clocks; do not tune the network.",
}
ADVICE_CPU_ONLY: Final = (
    "Compare the clocks and other processes of this rank's cores with its peers' (lscpu, top), then its work."
)


@dataclass(frozen=True, slots=True)
class Excess:
    """How much longer each cause's parts are on these lanes than on their peers, in nanoseconds a step (median over
    steps).
    """

    compute: float
    data: float
    host: float

    def cause(self, delay_ns: float) -> Cause:
        """The largest excess if it covers enough of the delay, else unknown."""
        by_cause: dict[Cause, float] = {"compute": self.compute, "data": self.data, "host": self.host}
        name = max(by_cause, key=lambda c: by_cause[c])
        return name if by_cause[name] >= COVERS * delay_ns else "unknown"


def excess(analysis: Analysis, lanes: Collection[int]) -> Excess:
    """Compare the lanes' own parts with the median of the other lanes, step by step."""
    mine = [i for i, place in enumerate(analysis.places) if place.lane in lanes]
    peers = [i for i, place in enumerate(analysis.places) if place.lane not in lanes]
    found: dict[Cause, float] = {}
    for cause, names in PARTS.items():
        values = np.sum([analysis.part(name) for name in names], axis=0)
        own, other = values[mine], values[peers]
        known = ~np.isnan(own).all(axis=0) & ~np.isnan(other).all(axis=0)
        more = np.nanmedian(own[:, known], axis=0) - np.nanmedian(other[:, known], axis=0)
        found[cause] = float(np.median(more)) if more.size else 0.0
    return Excess(found["compute"], found["data"], found["host"])
