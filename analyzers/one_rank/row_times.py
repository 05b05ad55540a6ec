"""The table of a rank's rows: what one file says of each window, part by part, and the counts that rules ask for."""

from __future__ import annotations

from typing import Final

import numpy as np

from rankscope.analyzers.measured import StepLabel
from rankscope.analyzers.trace.table import Column, Table

BEFORE, STEP, AFTER, WHOLE = range(4)


class RowTimes(Table):
    """One row per device (CPU-only: per rank) and window. All `_ns` columns are nanoseconds of that window."""

    device = Column(np.int64, "device", nullable=True)
    label = Column(np.int8, "0 before, 1 a step, 2 after, 3 the whole file (no marks)")
    step = Column(np.int64, "ProfilerStep number", nullable=True)
    begin_ns = Column(np.int64, "window begin, after the file's base")
    end_ns = Column(np.int64, "window end")
    cut_off = Column(np.bool_, "the capture ended inside this step")
    kernel_ns = Column(np.int64, "compute kernels; on a CPU-only rank working operators")
    device_copy_ns = Column(np.int64, "copies and fills on the device")
    data_loading_ns = Column(np.int64, "starved while the training thread was in its loader")
    checkpoint_ns = Column(np.int64, "starved while it saved or loaded a checkpoint")
    host_to_device_ns = Column(np.int64, "exposed copies to the device")
    device_to_host_ns = Column(np.int64, "exposed copies from the device")
    launch_ns = Column(np.int64, "from a launch to the start, the device idle")
    sync_ns = Column(np.int64, "starved after a blocking call drained the device")
    allocator_ns = Column(np.int64, "starved during cudaMalloc, cudaFree and kin")
    gc_ns = Column(np.int64, "starved while Python collected garbage")
    other_ns = Column(np.int64, "starved, nothing above")
    kernel_gap_ns = Column(np.int64, "idle between queued kernels")
    unexplained_ns = Column(np.int64, "idle before an event without a launch, or around one that was set aside")
    communication_overlapped_ns = Column(np.int64, "overlay: communication under compute")
    host_late_ns = Column(np.int64, "overlay: exposed communication before the next launch")
    io_overlapped_ns = Column(np.int64, "overlay: loader time and copies that cost nothing")
    blocking_calls = Column(np.int64, "synchronise calls and synchronous copies begun in the step")
    device_syncs = Column(np.int64, "calls among them that wait for the whole device")
    item_calls = Column(np.int64, "aten::item and aten::_local_scalar_dense begun in the step")
    drains = Column(np.int64, "idle gaps that began with a drain")
    device_to_host_copies = Column(np.int64, "copies from the device")
    pageable_bytes = Column(np.int64, "largest host-to-device copy from pageable memory")
    pageable_ns = Column(np.int64, "exposed time of host-to-device copies from pageable memory")
    allocator_calls = Column(np.int64, "cudaMalloc, cudaFree and kin begun in the step")
    loader_calls = Column(np.int64, "calls of the loader's __next__")
    single_process_calls = Column(np.int64, "those of a loader without workers")
    checkpoint_calls = Column(np.int64, "checkpoint ranges begun in the step")
    kernels = Column(np.int64, "compute kernels started in the window")
    tiny_kernels = Column(np.int64, "those shorter than 10 us")
    tiny_gap_ns = Column(
        np.int64, "gaps up to 100 us before such kernels, without drain, loader, checkpoint, collection"
    )
    tiny_wait_ns = Column(np.int64, "of them, what other_ns and launch_ns hold and other_told_ns does not")
    tensor_core_ns = Column(np.int64, "kernels that compute on tensor cores, by name")
    eligible_ns = Column(np.int64, "matrix products and convolutions in full fp32, by name")
    fp32_matmul_ns = Column(np.int64, "the matrix products among them")
    unaligned_matmul_ns = Column(np.int64, "two-byte matrix products whose kernel cannot load 16 bytes at once")
    optimizer_idle_ns = Column(np.int64, "idle from the first to the last work that an optimizer step launched")
    single_tensor_calls = Column(np.int64, "in-place operators on one parameter inside the optimizer")
    many_tensor_calls = Column(np.int64, "foreach and fused operators inside the optimizer")
    zero_grad_ns = Column(np.int64, "work that zero_grad launched")
    zero_calls = Column(np.int64, "aten::zero_ inside zero_grad")
    loop_idle_ns = Column(np.int64, "starved while the training thread repeated one short pattern around aten::select")
    loop_iterations = Column(np.int64, "iterations of such loops")
    compile_idle_ns = Column(np.int64, "starved while torch.compile compiled")
    compiles = Column(np.int64, "compilations begun in the step")
    cpu_collective_ns = Column(np.int64, "starved while a collective of a CPU backend was in flight")
    cpu_collectives = Column(
        np.int64, "collectives of a CPU backend begun in the step; those in flight at once count once"
    )
    profiler_idle_ns = Column(np.int64, "starved during the profiler's own overhead")
    other_told_ns = Column(
        np.int64, "of other_ns, during compilation, index loops, collectives of a CPU backend, the profiler's overhead"
    )
    sync_told_ns = Column(np.int64, "of sync_ns, while a collective of a CPU backend was in flight")
    allocated_peak_bytes = Column(np.int64, "most memory allocated on the device; 0 where it was not recorded")
    reserved_peak_bytes = Column(np.int64, "most memory reserved on the device; 0 where it was not recorded")


_FIRST = tuple(RowTimes.declared).index("kernel_ns")
PARTS: Final = tuple(RowTimes.declared)[_FIRST : tuple(RowTimes.declared).index("blocking_calls")]


class Exposed(Table):
    """Exposed communication of a rank as intervals, cut where `late` changes."""

    device = Column(np.int64, "device", nullable=True)
    start_ns = Column(np.int64, "begin, after the file's base")
    end_ns = Column(np.int64, "end")
    late = Column(np.bool_, "the host had not launched the next compute kernel, outside blocking calls")


class KernelTotals(Table):
    """All device events of one name and kind."""

    name_id = Column(np.int32, "kernel or copy")
    kind = Column(np.int8, "position in kernel_kind.KIND_NAMES")
    count = Column(np.int64, "events")
    total_ns = Column(np.int64, "sum of durations")
    min_ns = Column(np.int64, "shortest")
    max_ns = Column(np.int64, "longest")


class Exemplars(Table):
    """The costliest events of each kind of trouble, to point at."""

    trouble_id = Column(np.int32, "sync, data_loading, checkpoint, allocator, gc, pageable")
    name_id = Column(np.int32, "the event's name")
    start_ns = Column(np.int64, "begin, after the file's base")
    dur_ns = Column(np.int64, "duration")


def labels(table: RowTimes) -> list[StepLabel]:
    """The step labels of the rows, as reports write them."""
    words: dict[int, StepLabel] = {BEFORE: "before", AFTER: "after", WHOLE: None}
    return [int(s) if k == STEP else words[int(k)] for k, s in zip(table.label, table.step, strict=True)]
