"""What the host does, by the names of operators, ranges and runtime calls."""

from __future__ import annotations

import pytest

from rankscope.analyzers.one_rank import host_kind

YES = {
    host_kind.is_loader: [
        "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
        "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__",
        "rankscope.data",
    ],
    host_kind.is_checkpoint: [
        "torch.save",
        "torch.distributed.checkpoint.save",
        "torch.distributed.checkpoint.state_dict_saver.async_save",
        "torch/serialization.py(944): save",
        "rankscope.checkpoint",
    ],
    host_kind.is_gc: ["Python GC", "rankscope.gc"],
    host_kind.is_blocking_call: [
        "cudaStreamSynchronize",
        "cudaDeviceSynchronize",
        "cudaEventSynchronize",
        "hipStreamSynchronize",
        "hipDeviceSynchronize",
        "cudaMemcpy",
        "hipMemcpyWithStream",
    ],
    host_kind.is_allocator_call: ["cudaMalloc", "cudaFree", "cudaHostAlloc", "hipMalloc", "hipFree", "cuMemCreate"],
    host_kind.is_working_operator: ["aten::mm", "triton_poi_fused_add_0", "fbgemm::split_embedding_codegen"],
    host_kind.is_backward_node: ["MmBackward0", "autograd::engine::evaluate_function: MmBackward0"],
}
NO = {
    host_kind.is_loader: ["enumerate(DataLoader)", "DataLoader.__next__ later", "aten::stack"],
    host_kind.is_checkpoint: ["torch.saved_tensors", "checkpoint_wrapper forward", "torch.utils.checkpoint"],
    host_kind.is_gc: ["Python GC later", "gc"],
    host_kind.is_blocking_call: ["cudaStreamWaitEvent", "cudaMemcpyAsync", "cudaLaunchKernel", "cudaEventRecord"],
    host_kind.is_allocator_call: ["cudaLaunchKernel", "cudaMemcpyAsync", "aten::empty"],
    host_kind.is_working_operator: [
        "autograd::engine::evaluate_function: MmBackward0",
        "torch::autograd::AccumulateGrad",
        "MmBackward0",
        "c10d::allreduce_",
        "fsdp::all_gather_copy_in",
        "torch.distributed.all_reduce",
        "record_param_comms",
        "ProfilerStep#3",
        "nn.Module: Linear_0",
    ],
    host_kind.is_backward_node: ["aten::mm", "AddForward"],
}


@pytest.mark.parametrize(("test", "name"), [(test, name) for test, names in YES.items() for name in names])
def test_what_the_page_names_is_recognised(test: object, name: str) -> None:
    assert test(name)


@pytest.mark.parametrize(("test", "name"), [(test, name) for test, names in NO.items() for name in names])
def test_what_only_looks_like_it_is_not(test: object, name: str) -> None:
    assert not test(name)


def test_step_numbers_are_read_and_nothing_else() -> None:
    assert host_kind.step_number("ProfilerStep#12") == 12
    for other in ("ProfilerStep#", "ProfilerStep#1a", "xProfilerStep#1", "ProfilerStep#" + "9" * 19, "ProfilerStep*"):
        assert host_kind.step_number(other) is None


def test_the_user_adds_checkpoint_ranges_literally() -> None:
    assert host_kind.is_checkpoint("my.save step 3", ["my.save"])
    assert not host_kind.is_checkpoint("my_save step 3", ["my.save"])
