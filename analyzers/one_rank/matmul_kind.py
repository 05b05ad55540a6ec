"""What kind of matrix product a kernel computes, by its name: on tensor cores, in full fp32, on unaligned operands.

Decided once per distinct name, never per event. cuBLAS, cuDNN and CUTLASS write operand type, instruction and alignment
into their kernels' names; AMD's libraries do not, and are never judged.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

# The instruction's shape (s16816, h884, i8816) or generation (hmma, gmma, tensorop, wmma), the operands' type (tf32), or
# a family that has no other kernels (nvjet, FlashAttention, cuDNN's xmma); Triton's products, whose names say nothing of
# it, get the benefit of the doubt. After torch-tb-profiler's list. Memory-efficient attention in fp32 is on tensor cores
# from sm80 on (pytorch/pytorch, mem_eff_attention/gemm_kernel_utils.h).
_TENSOR_CORES: Final = re.compile(
    r"[shi](?:884|1688|8816|16816|16832|161616)|[hgiq]mma_|_(?:w|h)?mma_|_tensorop_|tf32|nvjet|flash_(?:fwd|bwd)"
    r"|cutlass3x|fmha(?!_cutlass[FB]_f32\w*_sm(?:50|70|75))|sm(?:90|100|103|120)_\w*gemm|xmma_(?!.*simt)|conv1x1|conv2d_c1_k1|c1_k1"
    r"|first_layer_wgrad_kernel|direct_group|dgrad_1x1_stride_2x2|ImplicitGemmMultistage"
    r"|triton_tem|matmul|attn_(?:fwd|bwd)",
    re.IGNORECASE,
)
_FP32: Final = re.compile(r"(?<![a-z0-9])sgemm|_sgemm|scudnn|f32f32_f32f32\w*simt|fmha_cutlass[FB]_f32", re.IGNORECASE)
_CONVOLUTION: Final = re.compile(r"conv|cudnn|fprop|dgrad|wgrad|winograd", re.IGNORECASE)
_CONVOLUTION_WORK: Final = re.compile(r"winograd\w*|(?:wgrad|dgrad)_\w*engine", re.IGNORECASE)
_HALF: Final = re.compile(r"bf16|f16|(?<![a-z])h(?:884|1688|16816)|s884", re.IGNORECASE)
_ALIGNMENT: Final = re.compile(r"(?:align|ldg)(\d{1,2})(?!\d)", re.IGNORECASE)
_AMD: Final = re.compile(r"_xdl|gtcx")
ALIGNED: Final = 8  # elements of two bytes: the 16 bytes that one load moves


TENSOR_CORES, ELIGIBLE, FP32_MATMUL, UNALIGNED = 1, 2, 4, 8  # bits of `traits`
_READ: Final = 512  # characters of a name that are looked at, so that a hostile one costs no more
_NEVER: Final = ("void at::native::", "Memcpy", "Memset", "nccl", "Cijk_", "igemm_")


def traits(name: str) -> int:
    """Which of the bits above hold for a compute kernel.

    TENSOR_CORES: it computes on them. ELIGIBLE: a matrix product or convolution in full fp32. FP32_MATMUL: the matrix
    products among these; convolutions have a switch of their own. UNALIGNED: a matrix product of two-byte operands that
    cannot load 16 bytes at once (`align1`, `ldg2`).
    """
    name = name[:_READ]
    if name.startswith(_NEVER) or _AMD.search(name):
        return 0
    if _TENSOR_CORES.search(name):
        return TENSOR_CORES | (UNALIGNED if _is_unaligned(name) else 0)
    if _FP32.search(name):
        return ELIGIBLE | (0 if _CONVOLUTION.search(name) else FP32_MATMUL)
    return ELIGIBLE if _CONVOLUTION_WORK.search(name) else 0


def _is_unaligned(name: str) -> bool:
    stated = _ALIGNMENT.search(name)
    return stated is not None and int(stated[1]) < ALIGNED and "gemm" in name and _HALF.search(name) is not None


def all_traits(name_ids: npt.NDArray[np.integer], names: Sequence[str]) -> npt.NDArray[np.int8]:
    """The traits of many kernels, deciding each distinct name once."""
    if not len(name_ids):
        return np.zeros(0, np.int8)
    present: list[int] = np.flatnonzero(np.bincount(name_ids)).tolist()
    table = np.zeros(present[-1] + 1, np.int8)
    table[present] = [traits(names[position]) for position in present]
    found: npt.NDArray[np.int8] = table[name_ids]
    return found
