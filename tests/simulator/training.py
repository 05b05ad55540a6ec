"""The simulated training loop: what one rank's program launches, step by step, and where the planted faults act."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rankscope.simulator.engine import COMMUNICATION, REPLICATION, Collective, Program, Recorded, Worker
from rankscope.simulator.mesh import ALL_GATHER, ALL_REDUCE, REDUCE_SCATTER, Mesh
from rankscope.simulator.scenario import FaultKind, Scenario

GEMM = "nvjet_tst_128x256_64x4_1x2_h_bz_coopA_TNT"
ATTENTION = "void flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4> >(Flash_fwd_params)"
ATTENTION_BACKWARD = "void flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<Flash_bwd_traits<128> >(Flash_bwd_params)"
ANONYMOUS = "void at::native::(anonymous namespace)::"
NORM = f"{ANONYMOUS}vectorized_layer_norm_kernel<c10::BFloat16, float>(int, float)"
NORM_BACKWARD = f"{ANONYMOUS}layer_norm_grad_input_kernel_vectorized<c10::BFloat16, float>(int)"
ADAM = f"{ANONYMOUS}multi_tensor_apply_kernel<FusedOptimizerTensorListMetadata<4> >(int)"
LOSS = f"{ANONYMOUS}cunn_SoftMaxForward<8, c10::BFloat16, float>(float*, int)"
SGEMM = "ampere_sgemm_128x64_tn"
FILL = "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float> >(int)"
UPDATE = "void at::native::vectorized_elementwise_kernel<4, at::native::addcdiv_kernel_lambda<float> >(int)"
NCCL = {
    ALL_REDUCE: "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    ALL_GATHER: "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    REDUCE_SCATTER: "ncclDevKernel_ReduceScatter_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
}
FORWARD = (  # operator, kernel, duration
    ("aten::layer_norm", NORM, 60_000),
    ("aten::mm", GEMM, 340_000),
    ("aten::_flash_attention_forward", ATTENTION, 260_000),
    ("aten::mm", GEMM, 380_000),
)
BACKWARD = (  # autograd node, operator, kernel, duration
    ("MmBackward0", "aten::mm", GEMM, 370_000),
    ("MmBackward0", "aten::mm", GEMM, 390_000),
    ("ScaledDotProductFlashAttentionBackward0", "aten::_flash_attention_backward", ATTENTION_BACKWARD, 560_000),
    ("MmBackward0", "aten::mm", GEMM, 660_000),
    ("NativeLayerNormBackward0", "aten::native_layer_norm_backward", NORM_BACKWARD, 80_000),
)
LOSS_NS, ADAM_NS, ADAM_KERNELS = 150_000, 300_000, 6
BATCH_BYTES, BATCH_COPY_NS = 2_097_152, 60_000
FILLS, UPDATES, LAPS = 10, 12, 100  # of zero_grad; of a single-tensor optimizer; of an indexing loop
SYNC_POINTS = 4  # layers after which a run with sync points calls .item()


class TrainingLoop:
    """One rank's training loop; calling it gives the program for `engine.run`."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.scenario = worker.scenario
        self.mesh = Mesh(worker.scenario)
        self.sharded = worker.scenario.sharding != "ddp"
        self.silent = worker.scenario.has(FaultKind.NO_COMMUNICATION)
        self.pending: list[int] = []  # ends of reductions that the optimizer needs
        self.gathered: dict[int, int] = {}  # layer -> end of its all-gather

    def __call__(self) -> Program:
        """Warm up, then record `steps` steps."""
        worker, job = self.worker, self.scenario
        for step in range(job.warmup + job.steps):
            if step == job.warmup:
                worker.drain("cudaDeviceSynchronize")
                worker.recorded, worker.windows = Recorded(), []
            worker.begin_window(step)
            with worker.span(f"ProfilerStep#{step}"):
                yield from self._step()
        worker.end_windows()
        worker.drain("cudaDeviceSynchronize")

    def _step(self) -> Program:
        self._next_batch()
        yield from self._forward()
        yield from self._backward()
        self._optimize()
        self._zero_gradients()
        compile_ns = self._amount(FaultKind.LATE_COMPILE)
        if compile_ns:
            with self.worker.span("entire_frame_compile (dynamo_timed)"):
                self.worker.starve(compile_ns)
        save_ns = self._amount(FaultKind.CHECKPOINT)
        if save_ns:
            with self.worker.span("torch.distributed.checkpoint.save"):
                self.worker.starve(save_ns)

    def _next_batch(self) -> None:
        worker, starved = self.worker, self._amount(FaultKind.SLOW_LOADER)
        with worker.span("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"):
            worker.now += worker.noisy(self.scenario.loader_ns, self.scenario.host_noise)
            if starved:
                worker.starve(starved)
        slow = self._amount(FaultKind.PAGEABLE_COPY)
        name = f"Memcpy HtoD ({'Pageable' if slow else 'Pinned'} -> Device)"
        worker.copy(name, BATCH_BYTES, slow or BATCH_COPY_NS, blocking=slow > 0)

    def _forward(self) -> Program:
        layers = self.scenario.layers
        yield from self._gather(0)
        for layer in range(layers):
            yield from self._gather(layer + 1)
            self._use(layer)
            self._stall(layer)
            for operator, kernel, ns in FORWARD:
                self._launch(operator, kernel, ns)
        self._launch("aten::_log_softmax", LOSS, LOSS_NS)

    def _stall(self, layer: int) -> None:
        """The faults that stop the host in the middle of the forward pass."""
        worker, middle = self.worker, self.scenario.layers // 2
        pause = self._amount(FaultKind.HOST_PAUSE)
        if pause and layer == middle:
            with worker.span("Python GC", "python_function"):
                worker.starve(pause)
        loop = self._amount(FaultKind.INDEXING_LOOP)
        if loop and layer == middle:
            self._loop(loop // LAPS)
        malloc = self._amount(FaultKind.DEVICE_MALLOC)
        if malloc and layer == middle:
            worker.drain("cudaFree")
            worker.call("cudaMalloc", until_ns=worker.now + malloc)
        points = min(SYNC_POINTS, self.scenario.layers)
        if layer in spread(points, self.scenario.layers):
            self._item(self._amount(FaultKind.SYNC_POINTS) // points)

    def _loop(self, ns: int) -> None:
        """A Python loop over `aten::select`, `ns` each time round, once the device has nothing left to do."""
        self.worker.starve(0)
        for _ in range(LAPS):
            with self.worker.span("aten::select", "cpu_op"):
                self.worker.now += ns - 2_000

    def _item(self, ns: int) -> None:
        """`.item()`: copy one number, wait for it; until the host has launched again, the device starves for `ns`."""
        worker = self.worker
        if not ns:
            return
        with worker.span("aten::item", "cpu_op"), worker.span("aten::_local_scalar_dense", "cpu_op"):
            worker.copy("Memcpy DtoH (Device -> Pinned)", 4, 2_000, blocking=False)
            worker.drain("cudaStreamSynchronize")
        worker.starve(ns)

    def _backward(self) -> Program:
        worker, job = self.worker, self.scenario
        worker.thread = 1
        late = job.has(FaultKind.LATE_COMMUNICATION)
        buckets = [0 if self.sharded else layer // job.layers_per_bucket for layer in range(job.layers)]
        for layer in reversed(range(job.layers)):
            yield from self._gather(layer - 1)
            self._use(layer)
            for node, operator, kernel, ns in BACKWARD:
                with worker.span(f"autograd::engine::evaluate_function: {node}", "cpu_op"), worker.span(node, "cpu_op"):
                    self._launch(operator, kernel, ns)
            if self.sharded:
                yield from self._scatter()
            elif not late and (layer == 0 or buckets[layer - 1] != buckets[layer]):
                yield from self._reduce(buckets.count(buckets[layer]))
        if late and not self.sharded:
            for bucket in reversed(range(buckets[-1] + 1)):
                yield from self._reduce(buckets.count(bucket))
        worker.thread = 0

    def _optimize(self) -> None:
        if self.pending:
            self.worker.wait_until(max(self.pending))
            self.pending.clear()
        with self.worker.span("Optimizer.step#AdamW.step"):
            gaps = self._amount(FaultKind.SINGLE_TENSOR)
            for _ in range(UPDATES if gaps else 0):
                self.worker.launch("aten::addcdiv_", UPDATE, ADAM_KERNELS * ADAM_NS // UPDATES, gaps // UPDATES)
            for _ in range(0 if gaps else ADAM_KERNELS):
                self._launch("aten::_fused_adamw_", ADAM, ADAM_NS)

    def _zero_gradients(self) -> None:
        zeros = self._amount(FaultKind.ZERO_GRAD)
        if zeros:
            with self.worker.span("Optimizer.zero_grad#AdamW.zero_grad"):
                for _ in range(FILLS):
                    self.worker.launch("aten::zero_", FILL, zeros // FILLS)

    # ---- collectives

    def _gather(self, layer: int) -> Program:
        """Launch the all-gather of a layer's parameters, one layer before they are needed."""
        if not self.sharded or not 0 <= layer < self.scenario.layers:
            return
        size = self.scenario.layer_bytes
        self.gathered[layer] = yield from self._collective(ALL_GATHER, size, 3 * self.scenario.layers)

    def _use(self, layer: int) -> None:
        """The layer's parameters are needed now."""
        if layer in self.gathered:
            self.worker.wait_until(self.gathered.pop(layer))

    def _scatter(self) -> Program:
        """Reduce a layer's gradients to their shards, and these over the replicas."""
        job, layers = self.scenario, self.scenario.layers
        end = yield from self._collective(REDUCE_SCATTER, job.layer_bytes, 3 * layers)
        if job.sharding == "hsdp":
            size = job.layer_bytes // len(self.mesh.shard(self.worker.rank).ranks)
            end = yield from self._collective(ALL_REDUCE, size, layers, after_ns=end)
        self.pending.append(end)

    def _reduce(self, layers: int) -> Program:
        """All-reduce a bucket of gradients."""
        buckets = -(-self.scenario.layers // self.scenario.layers_per_bucket)
        end = yield from self._collective(ALL_REDUCE, layers * self.scenario.layer_bytes, buckets)
        self.pending.append(end)

    def _collective(self, name: str, size: int, per_step: int, after_ns: int = 0) -> Collective:
        """One collective of the group that does this kind; `per_step` such collectives make up a step of that group."""
        replicating = self.sharded and name == ALL_REDUCE
        group = (self.mesh.replicas if replicating else self.mesh.shard)(self.worker.rank)
        if self.silent or len(group.ranks) == 1:
            return after_ns
        transfer = self.mesh.transfer_ns(group, name, size, per_step)
        stream = REPLICATION if replicating else COMMUNICATION
        return (yield from self.worker.collective(group, name, NCCL[name], size, transfer, stream, after_ns))

    # ---- compute

    def _launch(self, operator: str, kernel: str, ns: int) -> None:
        slower = ns * self._amount(FaultKind.SLOW_COMPUTE) // compute_ns(self.scenario)
        late = self._amount(FaultKind.SLOW_PYTHON) // launches(self.scenario)
        fp32 = self._amount(FaultKind.FULL_FP32)
        if fp32 and kernel == GEMM:
            kernel, slower = SGEMM, slower + ns * fp32 // matmul_ns(self.scenario)
        self.worker.launch(operator, kernel, ns + slower, late)

    def _amount(self, kind: FaultKind) -> int:
        return self.scenario.amount_ns(kind, self.worker.rank, self.worker.step)


def spread(count: int, length: int) -> Iterable[int]:
    """`count` positions spread evenly over `length`."""
    return (i * length // count for i in range(count))


def launches(scenario: Scenario) -> int:
    """Kernels of one step's compute."""
    return scenario.layers * (len(FORWARD) + len(BACKWARD)) + 1 + ADAM_KERNELS


def compute_ns(scenario: Scenario) -> int:
    """What one step computes, without noise and faults."""
    return scenario.layers * sum(_durations()) + LOSS_NS + ADAM_KERNELS * ADAM_NS


def matmul_ns(scenario: Scenario) -> int:
    """What the matrix products of one step compute, without noise and faults."""
    forward = sum(ns for _, kernel, ns in FORWARD if kernel == GEMM)
    return scenario.layers * (forward + sum(ns for *_, kernel, ns in BACKWARD if kernel == GEMM))


def _durations() -> Iterator[int]:
    yield from (ns for *_, ns in FORWARD)
    yield from (ns for *_, ns in BACKWARD)
