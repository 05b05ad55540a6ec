"""What the run recorded and what it did not, each with the copyable line that records it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from rankscope.analyzers.analysis import Analysis
from rankscope.analyzers.findings import MissingSignal, Signal
from rankscope.analyzers.one_rank.collective_records import CollectiveRecords
from rankscope.analyzers.one_rank.rank_record import RankRecord
from rankscope.analyzers.pulse.coverage import RECORDED

ACTIVITIES: Final = "torch.profiler.profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])"
STACKS: Final = "torch.profiler.profile(with_stack=True)"
GC: Final = (
    "torch.profiler.profile(with_stack=True, experimental_config="
    "torch._C._profiler._ExperimentalConfig(record_python_gc_info=True))  # torch >= 2.13"
)

_SIGNALS: Final[tuple[tuple[str, str, str, Callable[[RankRecord], bool]], ...]] = (
    (
        "step marks",
        "where one step ends and the next begins",
        "prof.step()  # once a step",
        lambda r: r.facts.has_marks,
    ),
    ("device activity", "kernels and copies on the device", ACTIVITIES, lambda r: r.facts.has_device),
    ("launches", "when the host asked for each kernel", ACTIVITIES, lambda r: r.facts.has_runtime),
    (
        "sequence numbers of collectives",
        "match collectives across ranks without inference",
        "pip install 'torch>=2.7'  # its NCCL writes Seq into the trace",
        lambda r: bool(r[CollectiveRecords].valid("seq").any()) and len(r[CollectiveRecords]) > 0,
    ),
    (
        "sizes of collectives",
        "bandwidth by group and size",
        "pip install 'torch>=2.2'  # writes the arguments of NCCL collectives",
        lambda r: bool(r[CollectiveRecords].valid("bytes").any()) and len(r[CollectiveRecords]) > 0,
    ),
    (
        "data loading",
        "when training waited for its next batch",
        "for batch in torch.utils.data.DataLoader(dataset): ...  # or: with "
        "torch.profiler.record_function('rankscope.data')",
        lambda r: r.facts.has_loader,
    ),
    (
        "checkpoints",
        "when training waited for a checkpoint",
        "with torch.profiler.record_function('torch.save'): ...",
        lambda r: r.facts.has_checkpoint,
    ),
    ("garbage collection", "when Python collected garbage", GC, lambda r: r.facts.has_gc),
    ("Python stacks", "which line of code asked for the work", STACKS, lambda r: r.facts.has_stacks),
    (
        "tensor shapes",
        "sizes of operators",
        "torch.profiler.profile(record_shapes=True)",
        lambda r: bool(r.meta.flags.get("record_shapes")),
    ),
    ("memory", "allocations over time", "torch.profiler.profile(profile_memory=True)", lambda r: r.facts.has_memory),
)


def need_launches(analysis: Analysis) -> None:
    """MissingSignal unless some rank recorded device activity with its runtime calls."""
    if not any(record.facts.has_device and record.facts.has_runtime for record in analysis.records):
        raise MissingSignal("no device activity with its runtime calls was recorded", ACTIVITIES)


def coverage(analysis: Analysis) -> list[Signal]:
    """Every signal with the ranks that have it: of traces, where there are any, and of the run directory."""
    traced = [
        Signal(name, meaning, [loaded.rank for loaded in analysis.run.ranks if has(loaded.record)], record)
        for name, meaning, record, has in _SIGNALS
    ]
    recording = analysis.run.recording
    if recording is None:
        return traced
    recorded = [
        Signal(name, meaning, [process.rank for process in recording.processes if has(process)], record)
        for name, meaning, record, has in RECORDED
    ]
    return [*recorded, *traced] if analysis.ranks else recorded
