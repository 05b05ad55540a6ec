"""What the host does: one table from names to the activities that the accounting tells apart.

Decided once per distinct name. The user may add checkpoint ranges by literal text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

STEP: Final = re.compile(r"ProfilerStep#(\d{1,18})$")
_LOADER: Final = re.compile(r"enumerate\(DataLoader\)#\w*\.__next__$")
_CHECKPOINT: Final = re.compile(
    r"torch\.save\b|torch\.distributed\.checkpoint\S*\.(?:async_save|save|load)\b|rankscope\.checkpoint"
    r"|torch/serialization\.py\(\d{1,9}\): save$"
    r"|torch/distributed/checkpoint/state_dict_(?:saver|loader)\.py\(\d{1,9}\): (?:async_save|save|load)(?:_state_dict)?$"
)
_SYNC_CALL: Final = re.compile(
    r"(?:cuda|hip|mtia|acl|aclrt)?(?:Stream|Device|Event|Ctx)Synchronize(?:_ptsz|_v2|WithTimeout)?$"
    r"|(?:cu|aclrt)(?:Stream|Ctx|Event|Device)?Synchronize\w*$|synchronize(?:Stream)?$"
    r"|(?:cuda|hip)Memcpy(?:2D|3D|ToSymbol|FromSymbol|WithStream)?$|(?:cu|hip)Memcpy(?:DtoH|HtoD|DtoD)(?:_v2)?$"
)
_DEVICE_SYNC: Final = re.compile(r"(?:cuda|hip)DeviceSynchronize$|cuCtxSynchronize\w*$|synchronize$")
_ALLOCATOR: Final = re.compile(
    r"(?:cuda|hip)(?:Malloc|Free|HostAlloc|HostMalloc|HostFree)\w*$"
    r"|cuMem(?:Alloc|Free|Create|Release|Map|Unmap|SetAccess|AddressReserve|AddressFree)\w*$"
)
_WRAPPER: Final = re.compile(r"autograd::|Backward|c10d|fsdp::|FSDP::|torch\.distributed|profiler::|record_param_comms")
_BACKWARD: Final = re.compile(r"autograd::engine|Backward")
ITEM_OPERATORS: Final = frozenset({"aten::item", "aten::_local_scalar_dense"})
GC_RANGES: Final = frozenset({"Python GC", "rankscope.gc"})
OPERATOR_CATEGORIES: Final = frozenset({"cpu_op", "Operator"})


def step_number(name: str) -> int | None:
    """The step a `ProfilerStep#N` mark names."""
    found = STEP.match(name)
    return int(found[1]) if found else None


def is_loader(name: str) -> bool:
    """The training thread asks its DataLoader for the next batch; also the collector's own range."""
    return name == "rankscope.data" or _LOADER.match(name) is not None


def is_checkpoint(name: str, patterns: Sequence[str] = ()) -> bool:
    """A checkpoint is saved or loaded; `patterns`: literal texts that mark more ranges."""
    return _CHECKPOINT.search(name) is not None or any(text in name for text in patterns)


def is_gc(name: str) -> bool:
    """Python collects garbage."""
    return name in GC_RANGES


def is_blocking_call(name: str) -> bool:
    """A runtime call that returns when the device has caught up: synchronise calls and synchronous copies."""
    return _SYNC_CALL.match(name) is not None


def is_device_sync(name: str) -> bool:
    """A call that waits for the whole device."""
    return _DEVICE_SYNC.match(name) is not None


def is_allocator_call(name: str) -> bool:
    """cudaMalloc, cudaFree and kin."""
    return _ALLOCATOR.match(name) is not None


def is_working_operator(name: str) -> bool:
    """An operator that computes on the CPU; wrappers, which span what others do and wait for, never count."""
    return ("::" in name or name.startswith("triton")) and _WRAPPER.search(name) is None


def is_backward_node(name: str) -> bool:
    """Part of the backward pass: its thread is a training thread."""
    return _BACKWARD.search(name) is not None


def where(
    name_ids: npt.NDArray[np.integer], names: Sequence[str], test: Callable[[str], bool]
) -> npt.NDArray[np.bool_]:
    """Rows whose name passes the test, which is asked once per distinct name."""
    if not len(name_ids):
        return np.zeros(0, np.bool_)
    present: list[int] = np.flatnonzero(np.bincount(name_ids)).tolist()
    passing = np.zeros(present[-1] + 1, np.bool_)
    for position in present:
        passing[position] = test(names[position])
    found: npt.NDArray[np.bool_] = passing[name_ids]
    return found
