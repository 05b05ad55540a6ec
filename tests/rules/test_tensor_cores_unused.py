from __future__ import annotations

from pathlib import Path

import pytest
from hand_made import MS, US, Rank, findings
from test_fp32_matmul import computing

V100 = {"device": "Tesla V100-SXM2-16GB", "major": 7}
VOLTA = "volta_sgemm_128x64_nt"


def test_eligible_work_without_tensor_cores_is_priced(tmp_path: Path) -> None:
    (found,) = findings(computing(800 * US, VOLTA, **V100), "tensor-cores-unused", tmp_path)
    assert found.cost_ns == 700 * US and "GradScaler" in found.advice


def test_a_convolution_in_full_fp32_counts_where_matrix_products_have_their_own_rule(tmp_path: Path) -> None:
    (found,) = findings(computing(800 * US, "ampere_scudnn_128x64_relu_xregs_large_nn_v1"), "tensor-cores-unused", tmp_path)
    assert found.cost_ns == 700 * US
    assert findings(computing(800 * US), "tensor-cores-unused", tmp_path) == []


@pytest.mark.parametrize(
    "run",
    [
        computing(110 * US, VOLTA, **V100),
        computing(5 * MS, VOLTA, device="Tesla P100-SXM2-16GB", major=6),
        computing(5 * MS, "Cijk_Ailk_Bjlk_SB_MT64x64x16", device="AMD Instinct MI210", major=9),
    ],
    ids=["short", "no tensor cores there", "AMD"],
)
def test_short_work_and_devices_without_tensor_cores_are_silent(run: Rank, tmp_path: Path) -> None:
    assert findings(run, "tensor-cores-unused", tmp_path) == []


@pytest.mark.parametrize(
    "kernel",
    [
        "volta_fp16_s884gemm_fp16_128x64_ldg8_f2f_nn",
        "nvjet_tst_128x256_64x4_1x2_h_bz_coopA_TNT",
        "void flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4> >(Flash_fwd_params)",
        "triton_tem_fused_addmm_relu_12",
        "sm80_xmma_fprop_implicit_gemm_f16f16_f16f32_f32_nhwckrsc_nhwc_tilesize128x128x32",
        "fmha_cutlassF_f16_aligned_64x64_rf_sm70(PyTorchMemEffAttention::AttentionKernel::Params)",
        "fmha_cutlassF_f32_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel::Params)",
    ],
)
def test_one_kernel_on_tensor_cores_anywhere_is_use(kernel: str, tmp_path: Path) -> None:
    run = computing(5 * MS, VOLTA, **V100)
    run.kernel(run.begin + 9 * MS, run.begin + 9 * MS + US, kernel)
    assert findings(run, "tensor-cores-unused", tmp_path) == []


def test_attention_in_fp32_is_eligible_before_ampere(tmp_path: Path) -> None:
    kernel = "fmha_cutlassB_f32_aligned_64x64_k64_sm70(PyTorchMemEffAttention::AttentionBackwardKernel::Params)"
    (found,) = findings(computing(800 * US, kernel, **V100), "tensor-cores-unused", tmp_path)
    assert found.cost_ns == 700 * US
