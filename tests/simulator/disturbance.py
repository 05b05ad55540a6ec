"""Where the planted faults act on one rank's program. The programs call these places; no program knows a fault."""

from __future__ import annotations

from collections.abc import Iterable

from rankscope.simulator import model
from rankscope.simulator.engine import LAUNCH_LATENCY_NS, Worker
from rankscope.simulator.memory import Memory
from rankscope.simulator.scenario import FaultKind
from rankscope.simulator.slower_kernels import SlowerKernels

FILLS, UPDATES, LAPS = 10, 12, 100  # of zero_grad; of a single-tensor optimizer; of an indexing loop
TINY, TINY_NS, TINY_GAP_NS = 200, 4_000, 40_000  # of a chain of tiny kernels: at least so many; each; before each
SYNC_POINTS = 4  # layers after which a run with sync points calls .item()


class Disturbance:
    """The faults of one rank: each method is a place of the training loop, in the order in which a step meets them."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.scenario = worker.scenario
        self.kernels = SlowerKernels(worker.scenario, worker.rank)
        self.memory = Memory(worker.scenario, worker.rank)

    def load(self) -> None:
        """Inside the loader's span, after its work."""
        starved = self.amount(FaultKind.SLOW_LOADER)
        if starved:
            self.worker.starve(starved)

    def copy_batch(self) -> None:
        """Copy the batch to the device."""
        slow = self.amount(FaultKind.PAGEABLE_COPY)
        name = f"Memcpy HtoD ({'Pageable' if slow else 'Pinned'} -> Device)"
        self.worker.copy(name, model.BATCH_BYTES, slow or model.BATCH_COPY_NS, blocking=slow > 0)

    def stall(self, layer: int) -> None:
        """Before a layer of the forward pass: the faults that stop the host there."""
        worker, middle = self.worker, self.scenario.layers // 2
        pause = self.amount(FaultKind.HOST_PAUSE)
        if pause and layer == middle:
            with worker.span("Python GC", "python_function"):
                worker.starve(pause)
        loop = self.amount(FaultKind.INDEXING_LOOP)
        if loop and layer == middle:
            self._loop(loop // LAPS)
        tiny = self.amount(FaultKind.TINY_KERNELS)
        if tiny and layer == middle:
            self._chain(tiny)
        overhead = self.amount(FaultKind.PROFILER)
        if overhead and layer == middle:
            with worker.span("Activity Buffer Request", "overhead"):
                worker.starve(overhead)
        warm = self.amount(FaultKind.WARM_UP)
        if warm and layer == 0:
            worker.starve(0)
            worker.call("cudaMalloc", until_ns=worker.now + warm)
        malloc = self.amount(FaultKind.DEVICE_MALLOC)
        if malloc and layer == middle:
            worker.drain("cudaFree")
            worker.call("cudaMalloc", until_ns=worker.now + malloc)
        points = min(SYNC_POINTS, self.scenario.layers)
        if layer in spread(points, self.scenario.layers):
            self._item(self.amount(FaultKind.SYNC_POINTS) // points)

    def launch(self, operator: str, kernel: str, ns: int) -> None:
        """Launch a compute kernel."""
        late = self.amount(FaultKind.SLOW_PYTHON) // model.launches(self.scenario)
        self.worker.launch(operator, *self.kernels.instead(kernel, ns, self.worker.step), late)

    def head(self, *, backward: bool) -> None:
        """The output's matrix products, on a stage that is heavy with them: one forward, two backward."""
        job = self.scenario
        amount = self.amount(FaultKind.HEAVY_STAGE) * job.pipeline // max(job.pipeline - 1, 1)
        for _ in range((2 if backward else 1) if amount else 0):
            self.launch("aten::mm", model.GEMM, amount // (3 * job.micro_batches))

    def keep(self, *, backward: bool) -> None:
        """After a layer: its activations are kept, or no longer needed."""
        allocation = self.memory.after_layer(self.worker.now, backward=backward)
        if self.memory.is_recorded:
            self.worker.recorded.allocations.append(allocation)

    def update(self) -> None:
        """The optimizer's kernels, inside its span."""
        gaps = self.amount(FaultKind.SINGLE_TENSOR)
        for _ in range(UPDATES if gaps else 0):
            ns = model.ADAM_KERNELS * model.ADAM_NS // UPDATES
            self.worker.launch("aten::addcdiv_", model.UPDATE, ns, gaps // UPDATES)
        for _ in range(0 if gaps else model.ADAM_KERNELS):
            self.launch("aten::_fused_adamw_", model.ADAM, model.ADAM_NS)

    def end_step(self) -> None:
        """After the optimizer, still in the step."""
        zeros = self.amount(FaultKind.ZERO_GRAD)
        if zeros:
            with self.worker.span("Optimizer.zero_grad#AdamW.zero_grad"):
                for _ in range(FILLS):
                    self.worker.launch("aten::zero_", model.FILL, zeros // FILLS)
        compile_ns = self.amount(FaultKind.LATE_COMPILE)
        if compile_ns:
            with self.worker.span("entire_frame_compile (dynamo_timed)"):
                self.worker.starve(compile_ns)
        save_ns = self.amount(FaultKind.CHECKPOINT)
        if save_ns:
            with self.worker.span("torch.distributed.checkpoint.save"):
                self.worker.starve(save_ns)

    def amount(self, kind: FaultKind) -> int:
        """What the faults of this kind add to this step of this rank."""
        return self.scenario.amount_ns(kind, self.worker.rank, self.worker.step)

    def _loop(self, ns: int) -> None:
        """A Python loop over `aten::select`, `ns` each time round, once the device has nothing left to do."""
        self.worker.starve(0)
        for _ in range(LAPS):
            with self.worker.span("aten::select", "cpu_op"):
                self.worker.now += ns - 2_000

    def _chain(self, gaps_ns: int) -> None:
        """Tiny kernels; the device has run dry before each for as long as from a launch to its start, or longer."""
        count = max(1, min(max(TINY, gaps_ns // TINY_GAP_NS), gaps_ns // LAUNCH_LATENCY_NS))
        self.worker.starve(0)
        for _ in range(count):
            late = gaps_ns // count - LAUNCH_LATENCY_NS
            self.worker.launch("aten::mul", model.MULTIPLY, TINY_NS, max(0, late), host_ns=0)

    def _item(self, ns: int) -> None:
        """`.item()`: copy one number, wait for it; until the host has launched again, the device starves for `ns`."""
        worker = self.worker
        if not ns:
            return
        with worker.span("aten::item", "cpu_op"), worker.span("aten::_local_scalar_dense", "cpu_op"):
            worker.copy("Memcpy DtoH (Device -> Pinned)", 4, 2_000, blocking=False)
            worker.drain("cudaStreamSynchronize")
        worker.starve(ns)


def spread(count: int, length: int) -> Iterable[int]:
    """`count` positions spread evenly over `length`."""
    return (i * length // count for i in range(count))
