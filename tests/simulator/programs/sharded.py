"""Fully sharded data parallel: parameters are gathered before use, gradients reduced to their shards.

Hybrid sharding (hsdp) shards within a host and all-reduces the shards over the hosts.
"""

from __future__ import annotations

from rankscope.simulator.engine import COMMUNICATION, REPLICATION, Program, Worker
from rankscope.simulator.mesh import ALL_GATHER, ALL_REDUCE, REDUCE_SCATTER, Mesh
from rankscope.simulator.programs.way import Way


class Sharded(Way):
    """Each layer's parameters are gathered one layer ahead, in both passes."""

    def __init__(self, worker: Worker, mesh: Mesh) -> None:
        super().__init__(worker, mesh)
        self.pending: list[int] = []  # ends of reductions that the optimizer needs
        self.gathered: dict[int, int] = {}  # layer -> end of its all-gather

    def begin_forward(self) -> Program:
        """Nobody has gathered the first layer yet."""
        yield from self._gather(0)

    def before_layer(self, layer: int, *, backward: bool) -> Program:
        """Gather the next layer, then wait for this one."""
        yield from self._gather(layer - 1 if backward else layer + 1)
        if layer in self.gathered:
            self.worker.wait_until(self.gathered.pop(layer))

    def after_layer(self, layer: int, *, backward: bool) -> Program:
        """Reduce the layer's gradients to their shards, and these over the replicas."""
        if not backward:
            return
        job, rank = self.scenario, self.worker.rank
        shard = self.mesh.shard(rank)
        end = yield from self.collective(shard, REDUCE_SCATTER, job.layer_bytes, 3 * job.layers, COMMUNICATION)
        if job.sharding == "hsdp":
            group, size = self.mesh.replicas(rank), job.layer_bytes // len(shard.ranks)
            end = yield from self.collective(group, ALL_REDUCE, size, job.layers, REPLICATION, after_ns=end)
        self.pending.append(end)

    def before_optimizer(self) -> None:
        """The optimizer needs every shard."""
        self.worker.wait_until(max(self.pending))
        self.pending.clear()

    def _gather(self, layer: int) -> Program:
        job = self.scenario
        if 0 <= layer < job.layers:
            group = self.mesh.shard(self.worker.rank)
            self.gathered[layer] = yield from self.collective(
                group, ALL_GATHER, job.layer_bytes, 3 * job.layers, COMMUNICATION
            )
