"""What all ways of parallelising have in common: the places of a step at which they may communicate."""

from __future__ import annotations

from dataclasses import dataclass

from rankscope.simulator.engine import Collective, Program, Worker
from rankscope.simulator.mesh import ALL_GATHER, ALL_REDUCE, ALL_TO_ALL, RECEIVE, REDUCE_SCATTER, SEND, Mesh
from rankscope.simulator.recording import Group
from rankscope.simulator.scenario import FaultKind

NCCL = {
    ALL_REDUCE: "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    ALL_GATHER: "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    REDUCE_SCATTER: "ncclDevKernel_ReduceScatter_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    **dict.fromkeys((ALL_TO_ALL, SEND, RECEIVE), "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"),
}


@dataclass(frozen=True, slots=True)
class Pass:
    """One micro-batch's way through the layers of a stage. `last`: gradients are complete after it."""

    micro_batch: int
    backward: bool
    last: bool


class Way:
    """A way of parallelising that never communicates; each method is a place of the step."""

    def __init__(self, worker: Worker, mesh: Mesh) -> None:
        self.worker = worker
        self.scenario = worker.scenario
        self.mesh = mesh
        self.pending: list[int] = []  # ends of reductions that the optimizer needs

    def begin(self, current: Pass) -> Program:
        """Before a pass's first layer."""
        yield from ()

    def before_layer(self, layer: int, current: Pass) -> Program:
        """Before a layer's first kernel."""
        yield from ()

    def before_half(self, half: int, current: Pass) -> Program:
        """Before a half of a layer: 0 is attention, 1 feed-forward."""
        yield from ()

    def work(self, half: int) -> float:
        """What a half of a layer computes here, relative to the mean rank."""
        return 1.0

    def after_half(self, half: int, current: Pass) -> Program:
        """After a half of a layer."""
        yield from ()

    def after_layer(self, layer: int, current: Pass) -> Program:
        """After a layer's last kernel."""
        yield from ()

    def end(self, current: Pass) -> Program:
        """After a pass's last layer."""
        yield from ()

    def before_optimizer(self) -> None:
        """The optimizer needs every reduced gradient."""
        if self.pending:
            self.worker.wait_until(max(self.pending))
            self.pending.clear()

    def after_reduction(self) -> Program:
        """Every gradient is reduced; the optimizer comes next."""
        yield from ()

    def collective(
        self, group: Group, name: str, size: int, per_step: int, stream: int, after_ns: int = 0
    ) -> Collective:
        """One collective of this group, `size` bytes at its larger end; `per_step` make up a step of that group."""
        if self.scenario.has(FaultKind.NO_COMMUNICATION) or len(group.ranks) == 1:
            return after_ns
        worker = self.worker
        late = self.scenario.amount_ns(FaultKind.LATE_HOST, worker.rank, worker.step) // per_step
        transfer = self.mesh.transfer_ns(group, name, size, per_step) + late
        part = size // len(group.ranks)
        sizes = part if name == ALL_GATHER else size, part if name == REDUCE_SCATTER else size
        end = yield from worker.collective(group, name, NCCL[name], sizes, transfer, stream, after_ns)
        worker.late_ns += late
        return end
