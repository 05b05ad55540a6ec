from __future__ import annotations

from pathlib import Path

import pytest
from hand_made import MS, US, Rank, findings
from test_fp32_matmul import computing

BF16 = "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_bf16_256x128_32x3_nn_align{}>(Params)"


@pytest.mark.parametrize("name", [BF16.format(1), BF16.format(4), "volta_fp16_s884gemm_fp16_128x64_ldg2_f2f_nn"])
def test_two_byte_products_that_load_less_than_sixteen_bytes_are_priced(name: str, tmp_path: Path) -> None:
    (found,) = findings(computing(800 * US, name), "unaligned-matmul", tmp_path)
    assert found.cost_ns == 400 * US and "multiples of 8" in found.advice


@pytest.mark.parametrize(
    "run",
    [
        computing(190 * US, BF16.format(1)),
        computing(5 * MS, BF16.format(8)),
        computing(5 * MS, "cutlass_80_tensorop_s1688gemm_256x128_32x3_nn_align1"),
        computing(5 * MS, "cutlass_80_simt_sgemm_128x32_8x5_nn_align1"),
        computing(5 * MS, "volta_scudnn_winograd_128x128_ldg1_ldg4_relu_tile148t_nt_v1"),
    ],
    ids=["short", "aligned", "tf32", "fp32", "convolution"],
)
def test_short_aligned_and_four_byte_products_are_silent(run: Rank, tmp_path: Path) -> None:
    assert findings(run, "unaligned-matmul", tmp_path) == []


def test_just_above_a_hundredth_of_the_step_is_told(tmp_path: Path) -> None:
    assert len(findings(computing(220 * US, BF16.format(2)), "unaligned-matmul", tmp_path)) == 1
