"""What kind of matrix product a kernel computes, by its name: on tensor cores, in full fp32, on unaligned operands.

Decided once per distinct name, never per event. cuBLAS, cuBLASLt, cuDNN and CUTLASS write type, instruction and
alignment into their kernels' names.
"""

from __future__ import annotations

import json
import re
from typing import Final

# The instruction's shape (s16816, h884, i8816), its generation (hmma, gmma, tensorop, wmma), or a family that has no
# other kernels (nvjet, FlashAttention's forward and backward, cuDNN's xmma kernels). After torch-tb-profiler's list.
_TENSOR_CORES: Final = re.compile(
    r"[shi](?:884|1688|8816|16816|16832|161616)|hmma|gmma|imma|qmma|tensorop|wmma|tf32|nvjet|flash_(?:fwd|bwd)"
    r"|cutlass3x|fmha|s64x\d|x128x|sm(?:90|100|120)_\w*gemm|xmma_(?!.*simt)|conv1x1|conv2d_c1_k1|c1_k1"
    r"|first_layer_wgrad_kernel|direct_group|dgrad_1x1_stride_2x2",
    re.IGNORECASE,
)
_CONVOLUTION: Final = re.compile(r"conv|cudnn|fprop|dgrad|wgrad|winograd", re.IGNORECASE)
_FP32: Final = re.compile(r"(?<![a-z0-9])sgemm|simt_sgemm|scudnn|convolve_sgemm|f32f32_f32f32\w*simt|gemmsn_\w*float", re.I)
_HALF: Final = re.compile(r"bf16|f16|half|(?<![a-z])h(?:gemm|884|1688|16816)|s884|s16816", re.IGNORECASE)
_ALIGNMENT: Final = re.compile(r"(?:align|ldg)(\d{1,2})(?!\d)", re.IGNORECASE)
ALIGNED: Final = 8  # elements of two bytes: the 16 bytes that one load moves
MATMUL_OPERATORS: Final = frozenset({"aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::_addmm_activation"})


def uses_tensor_cores(name: str) -> bool:
    """A kernel that computes on tensor cores."""
    return _TENSOR_CORES.search(name) is not None


def is_fp32(name: str) -> bool:
    """A matrix product or convolution in full fp32, without tensor cores."""
    return _FP32.search(name) is not None and not uses_tensor_cores(name)


def is_fp32_matmul(name: str) -> bool:
    """A matrix product in full fp32; convolutions, which have a switch of their own, are none."""
    return is_fp32(name) and _CONVOLUTION.search(name) is None


def is_half_matmul(name: str) -> bool:
    """A matrix product of two-byte operands on tensor cores."""
    return "gemm" in name.lower() and _HALF.search(name) is not None and uses_tensor_cores(name)


def stated_alignment(name: str) -> int | None:
    """How many elements the kernel loads at once, where its name says so (`align8`, `ldg8`)."""
    found = _ALIGNMENT.search(name)
    return int(found[1]) if found else None


def is_unaligned(shapes: str) -> bool:
    """`Input Dims` whose matrices have a size in their last two dimensions that is no multiple of 8; vectors do not
    count.
    """
    try:
        listed = json.loads(shapes)
    except ValueError:
        return False
    if not isinstance(listed, list):
        return False
    sizes = [size for dims in listed if isinstance(dims, list) and len(dims) >= 2 for size in dims[-2:]]
    return any(isinstance(size, int) and size > 1 and size % ALIGNED for size in sizes)
