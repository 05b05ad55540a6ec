"""Other tools' figures by their own definitions, exact where they round (docs/accounting.md, section 8).

Sources: HTA 0.6.1 `trace_analysis.py` and `utils.py`; TraceLens `gpu_event_analyser.py`; torch-tb-profiler 0.4.3
`run_generator.py` and `event_parser.py`. Read for their definitions; nothing of theirs is used here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import numpy as np

from rankscope.analyzers.intervals import EMPTY, Bools, Ints, Spans, clip, intersect, subtract, total, union
from rankscope.analyzers.measured import HtaFigures, TbPluginFigures, TraceLensFigures
from rankscope.analyzers.one_rank import host_kind, kernel_kind
from rankscope.analyzers.one_rank.hygiene import Hygiene
from rankscope.analyzers.one_rank.launches import DeviceWork
from rankscope.analyzers.one_rank.steps import Marks
from rankscope.analyzers.trace.model import Trace
from rankscope.analyzers.trace.tables import DeviceEvents, HostEvents, RuntimeCalls

_HTA_COMMUNICATION: Final = re.compile(r"nccl|hip|hccl|.*ncclKernel")
_HTA_MEMORY: Final = re.compile(r"(?:hip)?Mem(?:cpy|set)|dma")
_HTA_NO_COMPUTE: Final = re.compile(
    r"nccl|hip|hccl|runFunction|job_exe|packet|pe_exe|cpum_exe_subgraph|collective_subgraph_execution|Stream Wait Event"
    r"|.*(?:Mem(?:cpy|set)|dma|Sync)|cuda.*LaunchKernel"
)
_MEMSET: Final = "Memset"


def _of(work: DeviceWork, rows: Bools) -> Spans:
    return union(Spans(work.start[rows], work.end[rows]))


def tracelens(work: DeviceWork, names: Sequence[str]) -> TraceLensFigures:
    """Events with a launch in the file (all of them if none has one); fills count as computation, device copies as
    memcpy.
    """
    taken = work.launched if work.launched.any() else np.ones(len(work), np.bool_)
    fills = host_kind.where(work.name_id, names, lambda name: name.startswith(_MEMSET))
    computation = _of(work, taken & ((work.kind == kernel_kind.COMPUTE) | fills))
    communication = _of(work, taken & (work.kind == kernel_kind.COMMUNICATION))
    copies = np.isin(work.kind, (kernel_kind.DEVICE_COPY, kernel_kind.HOST_TO_DEVICE, kernel_kind.DEVICE_TO_HOST))
    memcpy = _of(work, taken & copies & ~fills)
    busy = union(computation, communication, memcpy)
    span = int(work.end[taken].max() - work.start[taken].min())
    return TraceLensFigures(
        total_ns=span,
        computation_ns=total(computation),
        exposed_comm_ns=total(subtract(communication, computation)),
        exposed_memcpy_ns=total(subtract(subtract(memcpy, computation), communication)),
        busy_ns=total(busy),
        idle_ns=span - total(busy),
    )


def hta(work: DeviceWork, names: Sequence[str], found: Marks) -> HtaFigures | None:
    """Temporal breakdown over the GPU span, the last step included (`include_last_profiler_step=True`; by default HTA
    drops it).

    With two or more steps HTA takes only events launched in the file by the end of the last step.
    """
    taken = np.ones(len(work), np.bool_)
    if len(found.number) >= 2:
        taken = work.launched & (work.launch_ns <= found.end[-1])
    if not taken.any():
        return None
    communication, computing = hta_communication(work.name_id, names), hta_compute(work.name_id, names)
    compute, comm = _of(work, taken & computing), _of(work, taken & communication)
    span = int(work.end[taken].max() - work.start[taken].min())
    busy = total(_of(work, taken))
    return HtaFigures(
        span_ns=span,
        compute_ns=total(compute),
        non_compute_ns=busy - total(compute),
        idle_ns=span - busy,
        overlap_share=total(intersect(compute, comm)) / total(comm) if total(comm) else None,
    )


def hta_communication(name_ids: Ints, names: Sequence[str]) -> Bools:
    """Which device events HTA takes for communication: by the beginning of their names."""
    return host_kind.where(name_ids, names, lambda name: _HTA_COMMUNICATION.match(name) is not None)


def hta_memory(name_ids: Ints, names: Sequence[str]) -> Bools:
    """Which device events HTA takes for copies and fills, unless they are communication."""
    return host_kind.where(name_ids, names, lambda name: _HTA_MEMORY.match(name) is not None)


def hta_compute(name_ids: Ints, names: Sequence[str]) -> Bools:
    """Which device events HTA takes for compute: those whose names say nothing else. The rest is of no class."""
    return host_kind.where(name_ids, names, lambda name: _HTA_NO_COMPUTE.match(name) is None)


def tb_plugin(trace: Trace, hygiene: Hygiene, work: DeviceWork, found: Marks) -> TbPluginFigures | None:
    """Exclusive classes by priority over the plugin's steps: marks, the last one stretched to the end of its device
    work.
    """
    if found.tid is None:
        return None
    begin = int(found.start[0])
    own = work.launched & (work.launch_ns >= begin) & (work.launch_ns < found.end[-1])
    end = max(int(found.end[-1]), int(work.end[own].max()) if own.any() else begin)
    names, host, calls = trace.names, trace.get(HostEvents), trace.get(RuntimeCalls)
    fills = host_kind.where(work.name_id, names, lambda name: name.startswith(_MEMSET))
    copies = host_kind.where(trace.get(DeviceEvents).cat_id[work.row], names, kernel_kind.COPY_CATEGORIES.__contains__)
    loader = host_kind.where(host.name_id, names, host_kind.is_loader)
    operators = host_kind.where(host.cat_id, names, host_kind.OPERATOR_CATEGORIES.__contains__) & ~loader
    kept, kept_calls = hygiene.kept(HostEvents), hygiene.kept(RuntimeCalls)
    classes = (
        _of(work, ~copies & (work.kind != kernel_kind.COMMUNICATION)),
        _of(work, copies & ~fills),
        _of(work, fills),
        _of(work, ~copies & (work.kind == kernel_kind.COMMUNICATION)),
        union(Spans(calls.start_ns[kept_calls], (calls.start_ns + calls.dur_ns)[kept_calls])),
        _host_of(host, loader & kept),
        _host_of(host, operators & kept & ~_is_mark(host, names)),
    )
    figures, claimed = [], EMPTY
    for members in classes:
        mine = subtract(clip(members, begin, end), claimed)
        figures.append(total(mine))
        claimed = union(claimed, mine)
    kernel, memcpy, memset, communication, runtime, loading, cpu = figures
    return TbPluginFigures(kernel, memcpy, memset, communication, runtime, loading, cpu, end - begin - total(claimed))


def _host_of(host: HostEvents, rows: Bools) -> Spans:
    return union(Spans(host.start_ns[rows], (host.start_ns + host.dur_ns)[rows]))


def _is_mark(host: HostEvents, names: Sequence[str]) -> Bools:
    return host_kind.where(host.name_id, names, lambda name: host_kind.step_number(name) is not None)
