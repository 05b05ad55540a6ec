"""The tables of one trace file. Times are integer nanoseconds after the file's base; sizes are bytes.

Columns called `..._id` that hold text hold positions in `Trace.names`; position 0 is the empty text.
"""

from __future__ import annotations

import numpy as np

from rankscope.analyzers.trace.table import Column, Table

CPU = "activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]"


class HostEvents(Table):
    """One row per timed host event that is neither a runtime call nor a Python function: operators and annotations."""

    record = f"torch.profiler.profile({CPU})"
    start_ns = Column(np.int64, "begin, after the file's base")
    dur_ns = Column(np.int64, "duration; negative where the file says so")
    pid = Column(np.int64, "process id")
    tid = Column(np.int64, "thread id")
    name_id = Column(np.int32, "what ran")
    cat_id = Column(np.int32, "Kineto category, as written: cpu_op, user_annotation, Operator, ...")
    external_id = Column(np.int64, "joins the operator with its device events", nullable=True)
    shapes_id = Column(np.int32, "`Input Dims` as JSON text")


class RuntimeCalls(Table):
    """One row per call of the device runtime or driver (CUDA, HIP, MTIA)."""

    record = f"torch.profiler.profile({CPU})"
    start_ns = Column(np.int64, "begin, after the file's base")
    dur_ns = Column(np.int64, "duration")
    pid = Column(np.int64, "process id")
    tid = Column(np.int64, "thread id")
    name_id = Column(np.int32, "function called")
    correlation = Column(np.int64, "joins the call with the device events it started", nullable=True)
    external_id = Column(np.int64, "the operator around the call", nullable=True)


class DeviceEvents(Table):
    """One row per kernel, copy or fill on a device. `cuda_sync` rows and annotations are not here."""

    record = f"torch.profiler.profile({CPU})"
    start_ns = Column(np.int64, "begin on the device, after the file's base")
    dur_ns = Column(np.int64, "duration")
    device = Column(np.int64, "`device`; where absent `inDevice`, else the pid")
    stream = Column(np.int64, "stream; where absent the tid")
    name_id = Column(np.int32, "kernel or copy")
    cat_id = Column(np.int32, "Kineto category, as written: kernel, gpu_memcpy, gpu_memset, Kernel, ...")
    correlation = Column(np.int64, "joins the event with its launch", nullable=True)
    external_id = Column(np.int64, "joins the event with its operator", nullable=True)
    bytes = Column(np.int64, "bytes copied or filled", nullable=True)
    from_device = Column(np.int64, "source of a copy between devices", nullable=True)
    to_device = Column(np.int64, "destination of a copy between devices", nullable=True)


class DeviceAnnotations(Table):
    """Projections of host ranges on the device's tracks (`gpu_user_annotation`). Never work, never windows."""

    start_ns = Column(np.int64, "begin, after the file's base")
    dur_ns = Column(np.int64, "duration")
    device = Column(np.int64, "device")
    stream = Column(np.int64, "stream; where absent the tid")
    name_id = Column(np.int32, "range")


class PythonFunctions(Table):
    """One row per Python call; also `Python GC`."""

    record = "torch.profiler.profile(with_stack=True)"
    start_ns = Column(np.int64, "begin, after the file's base")
    dur_ns = Column(np.int64, "duration")
    pid = Column(np.int64, "process id")
    tid = Column(np.int64, "thread id")
    name_id = Column(np.int32, "file(line): function, or module")
    python_id = Column(np.int64, "id of the call", nullable=True)
    parent_id = Column(np.int64, "`Python id` of the caller", nullable=True)


class OtherEvents(Table):
    """Timed events that are no work and no host activity: `cuda_sync`, `overhead`, profiler ranges, unknown categories.

    They count only for the first and the last timed event of the file. The `Trace` span and events whose pid is text
    are not here.
    """

    start_ns = Column(np.int64, "begin, after the file's base")
    dur_ns = Column(np.int64, "duration")
    pid = Column(np.int64, "process or device")
    tid = Column(np.int64, "thread or stream", nullable=True)
    name_id = Column(np.int32, "what")
    cat_id = Column(np.int32, "Kineto category, as written")


class CollectiveArgs(Table):
    """Arguments of collectives, one row per event that carries any: `record_param_comms` (host) or kernel (device)."""

    record = "torch >= 2.2 with NCCL writes them"
    on_device = Column(np.bool_, "the event is in DeviceEvents, else in HostEvents")
    row = Column(np.int64, "its row there")
    collective_id = Column(np.int32, "`Collective name`")
    dtype_id = Column(np.int32, "`dtype`")
    in_elements = Column(np.int64, "`In msg nelems`", nullable=True)
    out_elements = Column(np.int64, "`Out msg nelems`", nullable=True)
    group_size = Column(np.int64, "`Group size`", nullable=True)
    group_id = Column(np.int32, "`Process Group Name`")
    group_desc_id = Column(np.int32, "`Process Group Description`")
    group_ranks_id = Column(np.int32, "`Process Group Ranks`, the text as written")
    in_split_id = Column(np.int32, "`In split size`, the text as written")
    out_split_id = Column(np.int32, "`Out split size`, the text as written")
    seq = Column(np.int64, "`Seq`: position in the group's order", nullable=True)
    root = Column(np.int64, "`Rank`: own rank in the group, or the root of a rooted collective", nullable=True)
    src = Column(np.int64, "`Src Rank`", nullable=True)
    dst = Column(np.int64, "`Dst Rank`", nullable=True)


class MemoryEvents(Table):
    """One row per allocation or release (`[memory]`)."""

    record = "torch.profiler.profile(profile_memory=True)"
    at_ns = Column(np.int64, "when, after the file's base")
    bytes = Column(np.int64, "allocated; negative: released", nullable=True)
    address = Column(np.int64, "address", nullable=True)
    total_allocated = Column(np.int64, "allocated on this device afterwards", nullable=True)
    total_reserved = Column(np.int64, "reserved on this device afterwards", nullable=True)
    device_type = Column(np.int64, "0 CPU, 1 CUDA, 6 HIP", nullable=True)
    device = Column(np.int64, "device index; -1 as written for the CPU", nullable=True)


class Flows(Table):
    """Ends of forward-to-backward arrows (`fwdbwd`); launch arrows repeat what `correlation` says and are left out."""

    at_ns = Column(np.int64, "when, after the file's base")
    flow = Column(np.int64, "same at both ends")
    begins = Column(np.bool_, "forward end")
    pid = Column(np.int64, "process id")
    tid = Column(np.int64, "thread id")


TABLES: tuple[type[Table], ...] = (
    HostEvents,
    RuntimeCalls,
    DeviceEvents,
    DeviceAnnotations,
    PythonFunctions,
    OtherEvents,
    CollectiveArgs,
    MemoryEvents,
    Flows,
)
