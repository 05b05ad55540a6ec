"""The faults that can be planted, with the rule that must find each. Amounts are nanoseconds a step, of any size.

Faults that hold the host up are measured by what they take from the device: the host first loses its lead over the
device, then `amount_ns` more, so that the planted amount is what the device starves for.
"""

from __future__ import annotations

from rankscope.simulator.scenario import Fault, FaultKind


def slow_compute(rank: int, amount_ns: int) -> Fault:
    """One rank's kernels take longer, all in the same proportion."""
    return Fault(FaultKind.SLOW_COMPUTE, "straggler-rank", amount_ns, rank=rank, cause="compute")


def slow_shard(rank: int, amount_ns: int) -> Fault:
    """One rank's DataLoader is slow."""
    return Fault(FaultKind.SLOW_LOADER, "straggler-rank", amount_ns, rank=rank, cause="data")


def host_pause(rank: int, amount_ns: int) -> Fault:
    """One rank's Python stops for garbage collection in every forward pass."""
    return Fault(FaultKind.HOST_PAUSE, "straggler-rank", amount_ns, rank=rank, cause="host")


def slow_loader(amount_ns: int) -> Fault:
    """The DataLoader of every rank is slow."""
    return Fault(FaultKind.SLOW_LOADER, "data-starved", amount_ns)


def sync_points(amount_ns: int) -> Fault:
    """`.item()` drains the device four times a step, on every rank."""
    return Fault(FaultKind.SYNC_POINTS, "sync-points", amount_ns)


def checkpoint(amount_ns: int, every: int = 4) -> Fault:
    """Every few steps all ranks stop to save a checkpoint; `amount_ns` is for one save."""
    return Fault(FaultKind.CHECKPOINT, "checkpoint-stall", amount_ns, every=every)


def pageable_copy(amount_ns: int) -> Fault:
    """The batch is copied from pageable memory, which blocks the host until the copy is done."""
    return Fault(FaultKind.PAGEABLE_COPY, "pageable-copy", amount_ns)


def device_malloc(amount_ns: int) -> Fault:
    """The caching allocator runs out in every step: cudaFree drains the device, cudaMalloc follows."""
    return Fault(FaultKind.DEVICE_MALLOC, "allocator-retries", amount_ns)


def slow_link(amount_ns: int, group: str | None = None) -> Fault:
    """Transfers of one group (None: of all) take longer; `amount_ns` is spread over the collectives of the step."""
    return Fault(FaultKind.SLOW_LINK, "slow-link", amount_ns, group=group)


def slow_python(amount_ns: int) -> Fault:
    """Before every kernel the device waits for the host to launch it."""
    return Fault(FaultKind.SLOW_PYTHON, "host-bound-launch", amount_ns)


def late_communication(amount_ns: int) -> Fault:
    """Gradients are reduced after the backward pass, not during it; `amount_ns` is the transfers' sum. For ddp."""
    return Fault(FaultKind.LATE_COMMUNICATION, "exposed-collectives", amount_ns)


def no_communication() -> Fault:
    """The ranks never talk to each other: every one trains a model of its own."""
    return Fault(FaultKind.NO_COMMUNICATION, "missing-communication")


def late_compile(amount_ns: int, every: int = 11) -> Fault:
    """torch.compile compiles again every few steps; `amount_ns` is for one compilation."""
    return Fault(FaultKind.LATE_COMPILE, "late-compile", amount_ns, every=every)


def indexing_loop(amount_ns: int) -> Fault:
    """A loop picks one row after the other, for which the device waits."""
    return Fault(FaultKind.INDEXING_LOOP, "indexing-loop", amount_ns)


def zero_grad(amount_ns: int) -> Fault:
    """Gradients are filled with zeros at the end of each step; `amount_ns` is the fills' sum."""
    return Fault(FaultKind.ZERO_GRAD, "zero-grad", amount_ns)


def single_tensor_optimizer(amount_ns: int) -> Fault:
    """The optimizer updates one parameter after the other; `amount_ns` is the sum of the gaps between its kernels."""
    return Fault(FaultKind.SINGLE_TENSOR, "single-tensor-optimizer", amount_ns)


def full_fp32(amount_ns: int) -> Fault:
    """Matrix products run in full fp32, and take longer by `amount_ns` together."""
    return Fault(FaultKind.FULL_FP32, "fp32-matmul", amount_ns)
