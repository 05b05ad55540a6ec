"""Which table an event belongs to and which of its arguments are kept: by its category.

Never by `stream`: operators carry one too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rankscope.analyzers.trace.table import Table
from rankscope.analyzers.trace.tables import (
    DeviceAnnotations,
    DeviceEvents,
    Flows,
    HostEvents,
    MemoryEvents,
    OtherEvents,
    PythonFunctions,
    RuntimeCalls,
)

TRACE_SPAN = "Trace"
Keys = tuple[str, ...]  # spellings of one argument; the first that is present counts
EXTERNAL: Keys = ("External id", "external id")


@dataclass(frozen=True, slots=True)
class Kind:
    """What becomes of the events of some categories. `numbers`: column -> spellings of the argument."""

    table: type[Table] | None
    numbers: Mapping[str, Keys] = field(default_factory=dict)
    phase: str = "X"
    shapes: bool = False
    collectives: bool = False

    @property
    def columns(self) -> frozenset[str]:
        """Columns of the table."""
        return frozenset(self.table.declared) if self.table else frozenset()


HOST = Kind(HostEvents, {"external_id": EXTERNAL}, shapes=True, collectives=True)
RUNTIME = Kind(RuntimeCalls, {"external_id": EXTERNAL, "correlation": ("correlation",)})
PLACE: Mapping[str, Keys] = {"device": ("device", "inDevice"), "stream": ("stream",)}
KERNEL = Kind(DeviceEvents, {"external_id": EXTERNAL, **PLACE, "correlation": ("correlation",)}, collectives=True)
COPIED: Mapping[str, Keys] = {"bytes": ("bytes",), "from_device": ("fromDevice",), "to_device": ("toDevice",)}
COPY = Kind(DeviceEvents, {**KERNEL.numbers, **COPIED})
DEVICE_RANGE = Kind(DeviceAnnotations, PLACE)
PYTHON = Kind(PythonFunctions, {"python_id": ("Python id",), "parent_id": ("Python parent id",)})
OTHER = Kind(OtherEvents)
MEMORY = Kind(
    MemoryEvents,
    {
        "bytes": ("Bytes",),
        "address": ("Addr",),
        "total_allocated": ("Total Allocated",),
        "total_reserved": ("Total Reserved",),
        "device_type": ("Device Type",),
        "device": ("Device Id",),
    },
    phase="i",
)
FLOW = Kind(Flows, phase="sf")
DROPPED = Kind(None)

KINDS: Mapping[str, Kind] = {
    **dict.fromkeys(("cpu_op", "user_annotation", "Operator"), HOST),
    **dict.fromkeys(("cuda_runtime", "cuda_driver", "Runtime", "mtia_runtime", "glow_runtime"), RUNTIME),
    **dict.fromkeys(("xpu_runtime", "xpu_driver", "privateuse1_runtime", "privateuse1_driver"), RUNTIME),
    **dict.fromkeys(("kernel", "Kernel", "mtia_ccp_events"), KERNEL),
    **dict.fromkeys(("gpu_memcpy", "gpu_memset", "Memcpy", "Memset"), COPY),
    "gpu_user_annotation": DEVICE_RANGE,
    "python_function": PYTHON,
    **dict.fromkeys(("cuda_sync", "overhead", "cuda_profiler_range"), OTHER),
    "cpu_instant_event": MEMORY,
    **dict.fromkeys(("fwdbwd", "fwd_bwd"), FLOW),
    # launch arrows repeat what `correlation` says, and are a third of the events
    **dict.fromkeys(("ac2g", "async_cpu_to_gpu", "async_gpu", "async", TRACE_SPAN), DROPPED),
}

TEXTS: Mapping[str, str] = {
    "collective_id": "Collective name",
    "dtype_id": "dtype",
    "group_id": "Process Group Name",
    "group_desc_id": "Process Group Description",
    "group_ranks_id": "Process Group Ranks",
    "in_split_id": "In split size",
    "out_split_id": "Out split size",
}
COUNTS: Mapping[str, str] = {
    "in_elements": "In msg nelems",
    "out_elements": "Out msg nelems",
    "group_size": "Group size",
    "seq": "Seq",
    "root": "Rank",
    "src": "Src Rank",
    "dst": "Dst Rank",
}
