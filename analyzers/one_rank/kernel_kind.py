"""What a device event is: one table from names and categories to kinds, which the user may extend by literal text.

Kinds, in the order of the accounting's priority: compute kernel, communication, device copy or fill, host to device,
device to host. NOTHING is for rows that are neither work nor copies (waits on events). Decided once per distinct name,
never per event.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

COMPUTE, COMMUNICATION, DEVICE_COPY, HOST_TO_DEVICE, DEVICE_TO_HOST, NOTHING = range(6)
KIND_NAMES: Final = ("compute", "communication", "device_copy", "host_to_device", "device_to_host", "nothing")

KERNEL_CATEGORIES: Final = frozenset({"kernel", "Kernel"})
COPY_CATEGORIES: Final = frozenset({"gpu_memcpy", "Memcpy", "gpu_memset", "Memset"})

# Families seen in the wild: NCCL of all ages (ncclKernel, ncclDevKernel_, ncclSymk) and RCCL, which keeps the names;
# HCCL (hcom_); oneCCL; NVSHMEM; DeepEP dispatch, combine and notify; symmetric memory (multimem_, one_shot, two_shot); vLLM's
# and TensorRT-LLM's custom all-reduce; MSCCL++. Alternatives of literals only, so matching is linear in the name.
_COMMUNICATION = re.compile(
    r"nccl(?:Dev)?Kernel|ncclSym|nccl:|rccl|hccl|hcom_|oneccl|ccl_kernel|nvshmem|deep_ep::|notify_dispatch|notify_combine"
    r"|multimem_|one_shot_all_reduce|two_shot_all_reduce|cross_device_reduce|allreduce_fusion_kernel|mscclpp|msccl::",
    re.IGNORECASE,
)
_COPY_KINDS: Final = (
    ("PtoP", COMMUNICATION),
    ("HtoD", HOST_TO_DEVICE),
    ("HostToDevice", HOST_TO_DEVICE),
    ("DtoH", DEVICE_TO_HOST),
    ("DeviceToHost", DEVICE_TO_HOST),
    ("HtoH", DEVICE_TO_HOST),  # staged by the host; no kind of its own, and not the device's work
)
# MTIA's accelerator rows: what runs is pe_exe, dma_request moves bytes, events wait and record.
_MTIA_KINDS: Final = {"pe_exe": COMPUTE, "dma_request": DEVICE_COPY, "event_wait": NOTHING, "event_record": NOTHING}


def device_event_kind(name: str, category: str, communication: Sequence[str] = ()) -> int:
    """Kind of a device event by its name and Kineto category; `communication`: literal texts that mark more names."""
    if any(text in name for text in communication):
        return COMMUNICATION
    if category in KERNEL_CATEGORIES:
        return COMMUNICATION if _COMMUNICATION.search(name) else COMPUTE
    if category in COPY_CATEGORIES:
        return next((kind for text, kind in _COPY_KINDS if text in name), DEVICE_COPY)
    return _MTIA_KINDS.get(name, NOTHING)


def is_understood(name: str, category: str) -> bool:
    """Whether the table knows what such a device event is; what it does not know counts as NOTHING."""
    return category in KERNEL_CATEGORIES or category in COPY_CATEGORIES or name in _MTIA_KINDS


def kinds(
    name_ids: npt.NDArray[np.int64],
    cat_ids: npt.NDArray[np.int64],
    names: Sequence[str],
    communication: Sequence[str] = (),
) -> npt.NDArray[np.int8]:
    """Kinds of many events, deciding each distinct (name, category) once."""
    pair = name_ids.astype(np.int64) * len(names) + cat_ids
    distinct, inverse = np.unique(pair, return_inverse=True)
    table = np.array(
        [device_event_kind(names[int(p) // len(names)], names[int(p) % len(names)], communication) for p in distinct],
        np.int8,
    )
    return table[inverse] if len(distinct) else np.empty(0, np.int8)


def is_pageable(name: str) -> bool:
    """A copy from or to memory that is not pinned, by Kineto's name for it."""
    return "Pageable" in name
