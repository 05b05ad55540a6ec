"""What planted faults do to compute kernels: which kernel runs instead, and how long it takes."""

from __future__ import annotations

from rankscope.simulator import model
from rankscope.simulator.scenario import FaultKind, Scenario

# What torch runs on V100s in fp32 instead: cuBLAS's products and memory-efficient attention, none of it on tensor cores.
ON_VOLTA = {
    model.GEMM: "volta_sgemm_128x64_tn",
    model.ATTENTION: "fmha_cutlassF_f32_aligned_64x128_rf_sm70(PyTorchMemEffAttention::AttentionKernel<float>::Params)",
    model.ATTENTION_BACKWARD: (
        "fmha_cutlassB_f32_aligned_64x64_k128_sm70(PyTorchMemEffAttention::AttentionBackwardKernel<float>::Params)"
    ),
}
VOLTA_GAIN = 8  # tensor cores against fp32; source: NVIDIA V100 data sheet, 125 TFLOPS against 15.7
UNALIGNED_LOSS = 2  # times as long, at least: such a kernel loads half of what an aligned one does at once, or less
UNALIGNED = "void cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_32x32_128x2_tn_align2>(Params)"


class SlowerKernels:
    """The faults of one rank that act on its kernels, one after the other in the order of launches."""

    def __init__(self, scenario: Scenario, rank: int) -> None:
        self.scenario = scenario
        self.rank = rank
        self._owed = 0.0  # time of matrix products that are still to be unaligned

    def instead(self, kernel: str, ns: int, step: int) -> tuple[str, int]:
        """The kernel that runs in this one's place, and how long it takes."""
        job = self.scenario

        def amount(kind: FaultKind) -> int:
            return job.amount_ns(kind, self.rank, step)

        takes = ns + ns * amount(FaultKind.SLOW_COMPUTE) // model.compute_ns(job)
        if job.has(FaultKind.NO_TENSOR_CORES):
            return self._on_volta(kernel, ns, takes, amount(FaultKind.NO_TENSOR_CORES))
        if kernel != model.GEMM:
            return kernel, takes
        fp32, unaligned = amount(FaultKind.FULL_FP32), amount(FaultKind.UNALIGNED)
        if fp32:
            return model.SGEMM, takes + ns * fp32 // model.matmul_ns(job)
        if unaligned:
            return self._unaligned(ns, takes, unaligned / model.matmul_ns(job))
        return kernel, takes

    def _on_volta(self, kernel: str, ns: int, takes: int, amount_ns: int) -> tuple[str, int]:
        """Products take what returns `amount_ns` together when they are divided by VOLTA_GAIN."""
        if kernel == model.GEMM:
            whole = amount_ns * VOLTA_GAIN // (VOLTA_GAIN - 1)
            takes += ns * whole // model.matmul_ns(self.scenario) - ns
        return ON_VOLTA.get(kernel, kernel).replace("c10::BFloat16", "float"), takes

    def _unaligned(self, ns: int, takes: int, share: float) -> tuple[str, int]:
        """As many products are unaligned as make up this share of their time; above 1 all are, and take longer."""
        slower = max(share, UNALIGNED_LOSS - 1.0)
        self._owed += ns * share / slower
        if self._owed < ns / 2:
            return model.GEMM, takes
        self._owed -= ns
        return UNALIGNED, takes + round(ns * slower)
