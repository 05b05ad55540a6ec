from __future__ import annotations

from pathlib import Path

import pytest
from hand_made import FIRST, MS, STEP, US, Rank, findings, ranks, skipped

SGEMM = "ampere_sgemm_128x64_tn"


def computing(length: int, kernel: str = SGEMM, device: str = "NVIDIA A100-SXM4-80GB", major: int = 8) -> Rank:
    """One kernel of that name and length in each step, and one that says nothing."""

    def body(rank: Rank, _: int) -> None:
        rank.kernel(rank.begin + FIRST, rank.begin + FIRST + length, kernel)
        rank.kernel(rank.begin + FIRST + length, rank.begin + STEP, "elementwise")

    (made,) = ranks(1, body)
    made.head["deviceProperties"] = [{"id": 0, "name": device, "computeMajor": major, "computeMinor": 0}]
    return made


def test_matrix_products_in_full_fp32_are_priced_at_what_tf32_returns(tmp_path: Path) -> None:
    (found,) = findings(computing(800 * US), "fp32-matmul", tmp_path)
    assert found.cost_ns == 700 * US and "set_float32_matmul_precision" in found.advice


@pytest.mark.parametrize(
    "run",
    [
        computing(110 * US),
        computing(MS, "ampere_tf32_s1688gemm_128x64_nn"),
        computing(MS, "void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_64x64_16x6_nt_align4>(Params)"),
        computing(MS, "ampere_scudnn_128x64_relu_interior_nn_v1"),
        computing(MS, device="Tesla V100-SXM2-16GB", major=7),
        computing(MS, device="AMD Instinct MI300X", major=9),
    ],
    ids=["short", "tf32", "tensorop", "convolution", "no TF32 there", "AMD"],
)
def test_short_products_other_kernels_and_other_devices_are_silent(run: Rank, tmp_path: Path) -> None:
    assert findings(run, "fp32-matmul", tmp_path) == []


def test_without_the_devices_names_the_rule_is_skipped(tmp_path: Path) -> None:
    run = computing(MS)
    run.head.clear()
    assert "deviceProperties" in skipped(run, "fp32-matmul", tmp_path)


def test_just_above_a_hundredth_of_the_step_is_told(tmp_path: Path) -> None:
    assert len(findings(computing(120 * US), "fp32-matmul", tmp_path)) == 1
