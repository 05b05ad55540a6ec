"""The simulated model: the operators and kernels of one layer and of the optimizer, and how long they take."""

from __future__ import annotations

from rankscope.simulator.scenario import Scenario

GEMM = "nvjet_tst_128x256_64x4_1x2_h_bz_coopA_TNT"
ATTENTION = "void flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4> >(Flash_fwd_params)"
ATTENTION_BACKWARD = "void flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<Flash_bwd_traits<128> >(Flash_bwd_params)"
ANONYMOUS = "void at::native::(anonymous namespace)::"
NORM = f"{ANONYMOUS}vectorized_layer_norm_kernel<c10::BFloat16, float>(int, float)"
NORM_BACKWARD = f"{ANONYMOUS}layer_norm_grad_input_kernel_vectorized<c10::BFloat16, float>(int)"
ADAM = f"{ANONYMOUS}multi_tensor_apply_kernel<FusedOptimizerTensorListMetadata<4> >(int)"
LOSS = f"{ANONYMOUS}cunn_SoftMaxForward<8, c10::BFloat16, float>(float*, int)"
CAST = "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)>(int)"
SGEMM = "ampere_sgemm_128x64_tn"
FILL = "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float> >(int)"
SCALE = "void at::native::vectorized_elementwise_kernel<4, at::native::BUnaryFunctor<float, float, float> >(int)"
MULTIPLY = "void at::native::vectorized_elementwise_kernel<4, at::native::BinaryFunctor<c10::BFloat16> >(int)"
UPDATE = "void at::native::vectorized_elementwise_kernel<4, at::native::addcdiv_kernel_lambda<float> >(int)"
FORWARD = (  # the halves of a layer, attention and feed-forward; operator, kernel, duration
    (
        ("aten::layer_norm", NORM, 60_000),
        ("aten::mm", GEMM, 340_000),
        ("aten::_flash_attention_forward", ATTENTION, 260_000),
    ),
    (("aten::mm", GEMM, 380_000),),
)
BACKWARD = (  # the same halves; autograd node, operator, kernel, duration
    (
        ("ScaledDotProductFlashAttentionBackward0", "aten::_flash_attention_backward", ATTENTION_BACKWARD, 560_000),
        ("MmBackward0", "aten::mm", GEMM, 660_000),
        ("NativeLayerNormBackward0", "aten::native_layer_norm_backward", NORM_BACKWARD, 80_000),
    ),
    (
        ("MmBackward0", "aten::mm", GEMM, 370_000),
        ("MmBackward0", "aten::mm", GEMM, 390_000),
    ),
)
LOSS_NS, ADAM_NS, ADAM_KERNELS = 150_000, 300_000, 6
BATCH_BYTES, BATCH_COPY_NS = 2_097_152, 60_000

_KERNELS = [(kernel, ns) for half in (*FORWARD, *BACKWARD) for *_, kernel, ns in half]


def launches(scenario: Scenario) -> int:
    """Kernels of one step's compute."""
    return scenario.micro_batches * (scenario.layers * len(_KERNELS) + 1) + ADAM_KERNELS


def compute_ns(scenario: Scenario) -> int:
    """What one step computes, without noise and faults."""
    layers = scenario.layers * sum(ns for _, ns in _KERNELS)
    return scenario.micro_batches * (layers + LOSS_NS) + ADAM_KERNELS * ADAM_NS


def matmul_ns(scenario: Scenario) -> int:
    """What the matrix products of one step compute, without noise and faults."""
    return scenario.micro_batches * scenario.layers * sum(ns for kernel, ns in _KERNELS if kernel == GEMM)


def experts_ns(scenario: Scenario) -> int:
    """What the feed-forward halves of one step compute, without noise and faults."""
    layer = sum(ns for half in (FORWARD[1], BACKWARD[1]) for *_, ns in half)
    return scenario.micro_batches * scenario.layers * layer
