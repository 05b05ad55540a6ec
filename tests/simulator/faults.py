"""The faults that can be planted, with the rule that must find each. Amounts are nanoseconds a step, of any size.

Faults that hold the host up are measured by what they take from the device: the host first loses its lead over the
device, then `amount_ns` more, so that the planted amount is what the device starves for. The defaults are large enough
to be found in a step of 40 ms, as that of `rankscope demo`.
"""

from __future__ import annotations

from rankscope.simulator.scenario import Fault, FaultKind

RANK = 5
MS, GB = 1_000_000, 1_000_000_000


def slow_compute(rank: int = RANK, amount_ns: int = 6 * MS) -> Fault:
    """One rank's kernels take longer, all in the same proportion."""
    return Fault(FaultKind.SLOW_COMPUTE, "straggler-rank", amount_ns, ranks=(rank,), cause="compute")


def slow_host(ranks: tuple[int, ...] = (4, 5, 6, 7), amount_ns: int = 6 * MS) -> Fault:
    """The kernels of several ranks, of one host or group, take longer, all in the same proportion."""
    return Fault(FaultKind.SLOW_COMPUTE, "straggler-rank", amount_ns, ranks=ranks, cause="compute")


def slow_now_and_then(rank: int = RANK, amount_ns: int = 12 * MS, every: int = 2) -> Fault:
    """One rank's kernels take longer, but not in every step."""
    return Fault(FaultKind.SLOW_COMPUTE, "straggler-rank", amount_ns, ranks=(rank,), cause="compute", every=every)


def slower_since(amount_ns: int = 8 * MS, since: int = 16) -> Fault:
    """From one step on the kernels of all ranks take longer."""
    return Fault(FaultKind.SLOW_COMPUTE, "slowed-down", amount_ns, since=since)


def recurring_pause(amount_ns: int = 40 * MS, every: int = 6) -> Fault:
    """Every few steps Python stops for garbage collection, on all ranks at once."""
    return Fault(FaultKind.HOST_PAUSE, "recurring-stalls", amount_ns, every=every)


def slow_shard(rank: int = RANK, amount_ns: int = 6 * MS) -> Fault:
    """One rank's DataLoader is slow."""
    return Fault(FaultKind.SLOW_LOADER, "straggler-rank", amount_ns, ranks=(rank,), cause="data")


def host_pause(rank: int = RANK, amount_ns: int = 6 * MS) -> Fault:
    """One rank's Python stops for garbage collection in every forward pass."""
    return Fault(FaultKind.HOST_PAUSE, "straggler-rank", amount_ns, ranks=(rank,), cause="host")


def slow_loader(amount_ns: int = 6 * MS) -> Fault:
    """The DataLoader of every rank is slow."""
    return Fault(FaultKind.SLOW_LOADER, "data-starved", amount_ns)


def sync_points(amount_ns: int = 6 * MS) -> Fault:
    """`.item()` drains the device four times a step, on every rank."""
    return Fault(FaultKind.SYNC_POINTS, "sync-points", amount_ns)


def checkpoint(amount_ns: int = 60 * MS, every: int = 4) -> Fault:
    """Every few steps all ranks stop to save a checkpoint.

    `amount_ns` is for one save.
    """
    return Fault(FaultKind.CHECKPOINT, "checkpoint-stall", amount_ns, every=every)


def checkpoint_of_one(rank: int = 0, amount_ns: int = 60 * MS, every: int = 4) -> Fault:
    """Every few steps one rank saves a checkpoint, and the others wait for it.

    `amount_ns` is for one save.
    """
    return Fault(FaultKind.CHECKPOINT, "checkpoint-stall", amount_ns, ranks=(rank,), every=every)


def pageable_copy(amount_ns: int = 6 * MS) -> Fault:
    """The batch is copied from pageable memory, which blocks the host until the copy is done."""
    return Fault(FaultKind.PAGEABLE_COPY, "pageable-copy", amount_ns)


def device_malloc(amount_ns: int = 6 * MS) -> Fault:
    """The caching allocator runs out in every step: cudaFree drains the device, cudaMalloc follows."""
    return Fault(FaultKind.DEVICE_MALLOC, "allocator-retries", amount_ns)


def slow_link(amount_ns: int = 20 * MS, group: str | None = None) -> Fault:
    """Transfers of one group (none given: of all) take longer.

    `amount_ns` is spread over the collectives of the step.
    """
    return Fault(FaultKind.SLOW_LINK, "slow-link", amount_ns, group=group)


def slow_network(rank: int = RANK, amount_ns: int = 20 * MS) -> Fault:
    """One rank's network card is slow, and with it each transfer between hosts in which it takes part."""
    return Fault(FaultKind.SLOW_LINK, "slow-link", amount_ns, ranks=(rank,))


def slow_python(amount_ns: int = 20 * MS) -> Fault:
    """Before every kernel the device waits for the host to launch it."""
    return Fault(FaultKind.SLOW_PYTHON, "host-bound-launch", amount_ns)


def late_communication(amount_ns: int = 6 * MS) -> Fault:
    """Gradients are reduced after the backward pass, not during it.

    For ddp; `amount_ns` is the transfers' sum.
    """
    return Fault(FaultKind.LATE_COMMUNICATION, "exposed-collectives", amount_ns)


def late_host(amount_ns: int = 6 * MS) -> Fault:
    """After each collective the host is busy while it transfers, and launches the next kernel late.

    For jobs of one data group.
    """
    return Fault(FaultKind.LATE_HOST, "host-late-communication", amount_ns)


def small_messages(amount_ns: int = 6 * MS) -> Fault:
    """Metrics are reduced one number at a time before the optimizer.

    `amount_ns` is the transfers' sum.
    """
    return Fault(FaultKind.SMALL_MESSAGES, "small-collectives", amount_ns)


def cpu_backend(amount_ns: int = 20 * MS) -> Fault:
    """gloo reduces gradients after the backward pass.

    For ddp; `amount_ns` is without the copies to the host and back.
    """
    return Fault(FaultKind.CPU_BACKEND, "wrong-backend", amount_ns)


def data_parallel(amount_ns: int = 12 * MS) -> Fault:
    """One process drives all devices with DataParallel.

    `amount_ns` is what copying parameters and gradients between them takes.
    """
    return Fault(FaultKind.DATA_PARALLEL, "data-parallel", amount_ns)


def no_communication() -> Fault:
    """The ranks never talk to each other: every one trains a model of its own."""
    return Fault(FaultKind.NO_COMMUNICATION, "missing-communication")


def uneven_experts(ranks: tuple[int, ...] = (2, 6), amount_ns: int = 6 * MS) -> Fault:
    """These ranks' experts get more tokens, and compute longer than the mean rank's, by `amount_ns`."""
    return Fault(FaultKind.UNEVEN_EXPERTS, "uneven-work", amount_ns, ranks=ranks)


def heavy_stage(ranks: tuple[int, ...] = (6, 7), amount_ns: int = 8 * MS) -> Fault:
    """One stage of a pipeline, on these ranks, computes `amount_ns` longer than the mean stage: a large vocabulary."""
    return Fault(FaultKind.HEAVY_STAGE, "uneven-work", amount_ns, ranks=ranks)


def late_compile(amount_ns: int = 100 * MS, every: int = 11) -> Fault:
    """torch.compile compiles again every few steps.

    `amount_ns` is for one compilation.
    """
    return Fault(FaultKind.LATE_COMPILE, "late-compile", amount_ns, every=every)


def indexing_loop(amount_ns: int = 6 * MS) -> Fault:
    """A loop picks one row after the other, for which the device waits."""
    return Fault(FaultKind.INDEXING_LOOP, "indexing-loop", amount_ns)


def tiny_kernels(amount_ns: int = 6 * MS) -> Fault:
    """A chain of elementwise operators of a few microseconds each.

    `amount_ns` is the sum of the gaps before them.
    """
    return Fault(FaultKind.TINY_KERNELS, "tiny-kernels", amount_ns)


def zero_grad(amount_ns: int = 4 * MS) -> Fault:
    """Gradients are filled with zeros at the end of each step.

    `amount_ns` is the fills' sum.
    """
    return Fault(FaultKind.ZERO_GRAD, "zero-grad", amount_ns)


def single_tensor_optimizer(amount_ns: int = 4 * MS) -> Fault:
    """The optimizer updates one parameter after the other.

    `amount_ns` is the sum of the gaps between its kernels.
    """
    return Fault(FaultKind.SINGLE_TENSOR, "single-tensor-optimizer", amount_ns)


def full_fp32(amount_ns: int = 80 * MS) -> Fault:
    """Matrix products run in full fp32, and take longer by `amount_ns` together."""
    return Fault(FaultKind.FULL_FP32, "fp32-matmul", amount_ns)


def no_tensor_cores(amount_ns: int = 80 * MS) -> Fault:
    """Training in fp32 on V100s; on their tensor cores the matrix products would take `amount_ns` less together."""
    return Fault(FaultKind.NO_TENSOR_CORES, "tensor-cores-unused", amount_ns)


def unaligned_matmul(amount_ns: int = 6 * MS) -> Fault:
    """So many matrix products have sizes that are no multiples of 8 that they take `amount_ns` longer together."""
    return Fault(FaultKind.UNALIGNED, "unaligned-matmul", amount_ns)


def profiler(amount_ns: int = 6 * MS) -> Fault:
    """The profiler holds the host up in every step to get room for its records."""
    return Fault(FaultKind.PROFILER, "profiler-distortion", amount_ns)


def warm_up(amount_ns: int = 200 * MS, until: int = 4) -> Fault:
    """The capture begins too early: up to step `until` each step allocates memory, which takes `amount_ns`."""
    return Fault(FaultKind.WARM_UP, "warm-up-in-average", amount_ns, until=until)


def full_memory(amount_bytes: int = 80 * GB) -> Fault:
    """The allocator has reserved `amount_bytes` of the device's 85 GB."""
    return Fault(FaultKind.FULL_MEMORY, "memory-limit", amount_bytes=amount_bytes)


def uneven_memory(rank: int = RANK, amount_bytes: int = 20 * GB) -> Fault:
    """One rank has `amount_bytes` more allocated than its peers, which have 32 GB."""
    return Fault(FaultKind.UNEVEN_MEMORY, "memory-imbalance", amount_bytes=amount_bytes, ranks=(rank,))
