"""What the devices of a run can do, by what the files say of them."""

from __future__ import annotations

import re
from typing import Final

from rankscope.analyzers.analysis import Analysis
from rankscope.analyzers.findings import MissingSignal
from rankscope.analyzers.one_rank.rank_record import RankRecord

VOLTA, AMPERE = 70, 80  # compute capability x 10: the first with tensor cores, and with TF32 on them
RECORD: Final = "pip install 'torch>=2.0'  # writes deviceProperties into the trace; profile with ProfilerActivity.CUDA"
_NVIDIA: Final = re.compile(r"NVIDIA|Tesla|Quadro|GeForce|TITAN|GRID", re.IGNORECASE)


def compute_capability(record: RankRecord) -> int | None:
    """The lowest compute capability x 10 of the NVIDIA devices in one file; None: none, or it does not say."""
    names = dict(record.meta.devices)
    found = [
        limit.compute_capability
        for limit in record.meta.limits
        if limit.compute_capability is not None and _NVIDIA.search(names.get(limit.device, ""))
    ]
    return min(found, default=None)


def lowest_capability(analysis: Analysis) -> int | None:
    """Of all NVIDIA devices of the run; None where the devices are known and none is NVIDIA's.

    Raises MissingSignal where no file says what its devices are.
    """
    if not any(name for record in analysis.records for _, name in record.meta.devices):
        raise MissingSignal("no file says what its devices are", RECORD)
    found = [c for record in analysis.records if (c := compute_capability(record)) is not None]
    return min(found, default=None)


def memory_bytes(record: RankRecord, device: int | None) -> int | None:
    """The memory of one device; None where the file does not say."""
    return next((limit.memory_bytes for limit in record.meta.limits if limit.device == device), None)
