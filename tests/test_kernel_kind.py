"""What a device event is, by its name and category."""

from __future__ import annotations

import numpy as np
import pytest

from rankscope.analyzers.one_rank.kernel_kind import (
    COMMUNICATION,
    COMPUTE,
    DEVICE_COPY,
    DEVICE_TO_HOST,
    HOST_TO_DEVICE,
    NOTHING,
    device_event_kind,
    kinds,
)

KINDS = [
    ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "kernel", COMMUNICATION),
    ("ncclDevKernel_Generic(ncclDevComm*, channelMasks, ncclWork*)", "kernel", COMMUNICATION),
    ("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*, unsigned long, ncclWork*)", "Kernel", COMMUNICATION),
    ("ncclSymkDevKernel_AllGather_STMC(ncclSymkDevWorkArgs4K)", "kernel", COMMUNICATION),
    ("rcclGenericKernel", "kernel", COMMUNICATION),
    ("void deep_ep::internode::dispatch<false, 8>(...)", "kernel", COMMUNICATION),
    ("multimem_all_reduce_kernel<c10::BFloat16>", "kernel", COMMUNICATION),
    ("void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>", "kernel", COMMUNICATION),
    ("mscclpp::allreduce8", "kernel", COMMUNICATION),
    ("nvshmemi_transfer_rma_put", "kernel", COMMUNICATION),
    ("ampere_sgemm_128x64_nn", "kernel", COMPUTE),
    ("void at::native::reduce_kernel<512, 1>", "kernel", COMPUTE),
    ("triton_poi_fused_add_0", "kernel", COMPUTE),
    ("void flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel", "kernel", COMPUTE),
    ("Memcpy HtoD (Pageable -> Device)", "gpu_memcpy", HOST_TO_DEVICE),
    ("CopyHostToDevice", "gpu_memcpy", HOST_TO_DEVICE),
    ("Memcpy DtoH (Device -> Pinned)", "Memcpy", DEVICE_TO_HOST),
    ("Memcpy DtoD (Device -> Device)", "gpu_memcpy", DEVICE_COPY),
    ("Memcpy PtoP (Device -> Device)", "gpu_memcpy", COMMUNICATION),
    ("Memset (Device)", "gpu_memset", DEVICE_COPY),
    ("Stream Wait Event", "cuda_sync", NOTHING),
]


@pytest.mark.parametrize(("name", "category", "kind"), KINDS)
def test_names_of_every_family_are_told_apart(name: str, category: str, kind: int) -> None:
    assert device_event_kind(name, category) == kind


def test_the_user_adds_names_literally_not_as_patterns() -> None:
    assert device_event_kind("my.exchange", "kernel", ["my.exchange"]) == COMMUNICATION
    assert device_event_kind("my_exchange", "kernel", ["my.exchange"]) == COMPUTE


def test_many_events_are_judged_as_each_alone() -> None:
    names = ["", "kernel", "gpu_memcpy", "gemm", "ncclDevKernel_AllReduce", "Memcpy DtoH (Device -> Pinned)"]
    rows = np.array([3, 4, 5, 3]), np.array([1, 1, 2, 1])
    assert kinds(*rows, names).tolist() == [COMPUTE, COMMUNICATION, DEVICE_TO_HOST, COMPUTE]
    assert kinds(np.empty(0, np.int64), np.empty(0, np.int64), names).tolist() == []
