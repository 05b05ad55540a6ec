"""What is simulated: ranks, hosts, the shape of the training job, and the faults planted in it. All in ns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

Sharding = Literal["ddp", "fsdp", "hsdp"]
Cause = Literal["compute", "data", "host", "unknown"]


class FaultKind(StrEnum):
    """What goes wrong; `faults` has one constructor for each."""

    SLOW_COMPUTE = "slow_compute"
    SLOW_LOADER = "slow_loader"
    HOST_PAUSE = "host_pause"
    SYNC_POINTS = "sync_points"
    CHECKPOINT = "checkpoint"
    PAGEABLE_COPY = "pageable_copy"
    DEVICE_MALLOC = "device_malloc"
    SLOW_LINK = "slow_link"
    SLOW_PYTHON = "slow_python"
    LATE_COMMUNICATION = "late_communication"
    NO_COMMUNICATION = "no_communication"
    LATE_COMPILE = "late_compile"
    INDEXING_LOOP = "indexing_loop"
    ZERO_GRAD = "zero_grad"
    SINGLE_TENSOR = "single_tensor"
    FULL_FP32 = "full_fp32"
    UNALIGNED = "unaligned"
    NO_TENSOR_CORES = "no_tensor_cores"
    TINY_KERNELS = "tiny_kernels"
    SMALL_MESSAGES = "small_messages"
    LATE_HOST = "late_host"
    CPU_BACKEND = "cpu_backend"
    UNEVEN_EXPERTS = "uneven_experts"
    HEAVY_STAGE = "heavy_stage"
    PROFILER = "profiler"
    DATA_PARALLEL = "data_parallel"
    WARM_UP = "warm_up"
    FULL_MEMORY = "full_memory"
    UNEVEN_MEMORY = "uneven_memory"


@dataclass(frozen=True, slots=True)
class Fault:
    """One planted fault: `amount_ns` in each step it hits, on each of `ranks`; none given: on all ranks.

    `every` 3: each third step; `since` 4 and `until` 4: only steps numbered from 4 on, and below 4; those before the
    capture have numbers too.
    """

    kind: FaultKind
    rule: str  # the rule that must find it
    amount_ns: int = 0
    amount_bytes: int = 0
    ranks: tuple[int, ...] = ()
    group: str | None = None  # slow links only: the group whose transfers are slow
    cause: Cause | None = None
    every: int = 1
    since: int = 0
    until: int | None = None

    def hits(self, rank: int, step: int) -> bool:
        """Whether the fault acts on this rank in this step."""
        now = step % self.every == 0 and self.since <= step and (self.until is None or step < self.until)
        return now and (not self.ranks or rank in self.ranks)


@dataclass(frozen=True, slots=True)
class Scenario:
    """One job. The defaults are healthy: every loss stays below the threshold at which a rule speaks.

    A micro-batch computes for about 3.1 ms a layer; the host needs about half of that to launch it and so runs ahead.
    Ranks divide into `pipeline` stages, each into data ranks, each of `tensor` ranks; `expert` divides the data ranks.
    """

    ranks: int = 8
    steps: int = 12
    warmup: int = 2  # steps before the capture; the captured ones are numbered on from here
    seed: int = 0
    sharding: Sharding = "ddp"  # over the data ranks
    tensor: int = 1  # ranks that share each layer
    sequence_parallel: bool = False  # tensor ranks gather and scatter activations instead of reducing them
    pipeline: int = 1  # stages, one after the other
    expert: int = 1  # data ranks that hold different experts
    expert_imbalance: float = 0.0  # how far the tokens of the first expert rank exceed the mean, relative
    micro_batches: int = 1  # a step; gradients are reduced after the last
    prefetch: int = 1  # fsdp, hsdp: layers whose parameters are gathered ahead
    clip_gradients: bool = False  # all ranks add up one number, the norm, before the optimizer
    cuda_graphs: bool = False  # each half of a layer's pass is one launch
    ranks_per_host: int = 8
    clock_offsets_ns: tuple[int, ...] = ()  # by host: how far its clock is ahead at common time 0; missing ones are 0
    clock_drifts_ppb: tuple[int, ...] = ()  # by host: how much faster it runs; 100,000 are 1 ms in 10 s
    end_jitter_ns: int = 0  # each rank leaves a collective up to so much before or after the others
    layers: int = 12  # of one stage
    layers_per_bucket: int = 2  # ddp: layers whose gradients are reduced together
    layer_bytes: int = 16_777_216  # gradients, and parameters, of one layer
    activation_bytes: int = 4_194_304  # of one micro-batch between two layers
    bus_bytes_per_s: int = 200_000_000_000
    near_bytes_per_s: int = 400_000_000_000  # within tensor and expert groups, which share a host
    far_bytes_per_s: int = 50_000_000_000  # between pipeline stages
    link_latency_ns: int = 25_000
    near_latency_ns: int = 9_000  # within tensor and expert groups
    contention: float = 0.0  # how much slower compute is while a collective transfers, relative
    run_ahead: int = 1_024  # launches the host can be ahead of the device
    operator_ns: int = 150_000  # host time between two launches
    loader_ns: int = 400_000
    checkpoint_every: int = 0  # steps; 0: never
    checkpoint_ns: int = 300_000  # for which the device idles in one asynchronous save
    evaluate_every: int = 0  # steps; 0: never
    kernel_noise: float = 0.03  # standard deviation of a kernel's duration, relative; shape and size: `noise`
    host_noise: float = 0.2
    faults: tuple[Fault, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what cannot be simulated with ValueError."""
        counts = (self.ranks, self.steps, self.ranks_per_host, self.layers, self.layers_per_bucket, self.micro_batches)
        if min(*counts, self.tensor, self.pipeline, self.expert, self.run_ahead) < 1:
            raise ValueError("counts of ranks, steps, layers, micro-batches, stages and launches: at least 1")
        if min(self.warmup, self.prefetch, self.checkpoint_every, self.evaluate_every) < 0:
            raise ValueError("warmup, prefetch, checkpoint_every, evaluate_every: at least 0")
        if self.ranks % (self.tensor * self.pipeline) or self.data % self.expert:
            raise ValueError("tensor and pipeline must divide the ranks, expert the data ranks")
        if self.sharding == "hsdp" and (self.ranks_per_host % self.tensor or self.data % self.shard):
            raise ValueError("hsdp needs hosts with equally many ranks")

    @property
    def data(self) -> int:
        """Ranks that train on different batches."""
        return self.ranks // (self.tensor * self.pipeline)

    @property
    def shard(self) -> int:
        """Data ranks that hold one copy of the parameters together."""
        return self.ranks_per_host // self.tensor if self.sharding == "hsdp" else self.data

    def amount_ns(self, kind: FaultKind, rank: int, step: int) -> int:
        """What the faults of this kind add to this step of this rank."""
        return sum(fault.amount_ns for fault in self.faults if fault.kind is kind and fault.hits(rank, step))

    def has(self, kind: FaultKind) -> bool:
        """Whether a fault of this kind is planted anywhere."""
        return any(fault.kind is kind for fault in self.faults)

    def amount_bytes(self, kind: FaultKind, rank: int) -> int:
        """What the faults of this kind add to this rank's memory."""
        return sum(fault.amount_bytes for fault in self.faults if fault.kind is kind and fault.hits(rank, 0))

    def link_ns(self, group: str, members: Sequence[int]) -> int:
        """What slow links add to a step's transfers of this group; a rank's network is used between hosts only."""
        far = len({self.host(rank) for rank in members}) > 1
        slow = [f for f in self.faults if f.kind is FaultKind.SLOW_LINK and f.group in (None, group)]
        return sum(f.amount_ns for f in slow if not f.ranks or (far and not set(f.ranks).isdisjoint(members)))

    def host(self, rank: int) -> int:
        """The host this rank runs on."""
        return rank // self.ranks_per_host

    def clock_offset_ns(self, rank: int) -> int:
        """How far the clock of this rank's host is ahead of common time, at time 0."""
        host = self.host(rank)
        return self.clock_offsets_ns[host] if host < len(self.clock_offsets_ns) else 0

    def clock_drift_ppb(self, rank: int) -> int:
        """How much faster than common time this rank's host counts."""
        host = self.host(rank)
        return self.clock_drifts_ppb[host] if host < len(self.clock_drifts_ppb) else 0
