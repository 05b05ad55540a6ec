"""What all ways of parallelising have in common: the places of a step at which they may communicate."""

from __future__ import annotations

from rankscope.simulator.engine import Collective, Group, Program, Worker
from rankscope.simulator.mesh import ALL_GATHER, ALL_REDUCE, REDUCE_SCATTER, Mesh
from rankscope.simulator.scenario import FaultKind

NCCL = {
    ALL_REDUCE: "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    ALL_GATHER: "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    REDUCE_SCATTER: "ncclDevKernel_ReduceScatter_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
}


class Way:
    """A way of parallelising that never communicates; each method is a place of the step."""

    def __init__(self, worker: Worker, mesh: Mesh) -> None:
        self.worker = worker
        self.scenario = worker.scenario
        self.mesh = mesh

    def begin_forward(self) -> Program:
        """Before the first layer."""
        yield from ()

    def before_layer(self, layer: int, *, backward: bool) -> Program:
        """Before a layer's first kernel."""
        yield from ()

    def after_layer(self, layer: int, *, backward: bool) -> Program:
        """After a layer's last kernel."""
        yield from ()

    def end_backward(self) -> Program:
        """After the last layer of the backward pass."""
        yield from ()

    def before_optimizer(self) -> None:
        """The optimizer reads the gradients next."""

    def collective(
        self, group: Group, name: str, size: int, per_step: int, stream: int, after_ns: int = 0
    ) -> Collective:
        """One collective of this group; `per_step` of its kind make up a step of that group."""
        if self.scenario.has(FaultKind.NO_COMMUNICATION) or len(group.ranks) == 1:
            return after_ns
        transfer = self.mesh.transfer_ns(group, name, size, per_step)
        return (yield from self.worker.collective(group, name, NCCL[name], size, transfer, stream, after_ns))
