"""Fully sharded data parallel: parameters are gathered before use, gradients reduced to their shards.

Hybrid sharding (hsdp) shards within a host and all-reduces the shards over the hosts.
"""

from __future__ import annotations

from rankscope.simulator.engine import COMMUNICATION, REPLICATION, Collective, Program, Worker
from rankscope.simulator.mesh import ALL_GATHER, ALL_REDUCE, REDUCE_SCATTER, Mesh
from rankscope.simulator.programs.way import Pass, Way


class Sharded(Way):
    """Each layer's parameters are gathered `prefetch` layers ahead, in both passes; 0: when they are needed.

    The last layer is kept for the backward pass. Of several micro-batches only the last reduces.
    """

    def __init__(self, worker: Worker, mesh: Mesh) -> None:
        super().__init__(worker, mesh)
        self.per_step = (2 * self.scenario.micro_batches + 1) * self.scenario.layers
        self.asked: set[int] = set()  # layers gathered for this pass
        self.gathered: dict[int, int] = {}  # layer -> end of its all-gather, where nobody has waited for it yet

    def begin(self, current: Pass) -> Program:
        """Nothing is gathered but what the forward pass before left."""
        kept = current.backward and self.scenario.pipeline == 1
        self.asked = {self.scenario.layers - 1} if kept else set()
        yield from ()

    def before_layer(self, layer: int, current: Pass) -> Program:
        """Gather the layers ahead, then wait for this one."""
        job, step = self.scenario, -1 if current.backward else 1
        for ahead in range(layer, layer + step * (job.prefetch + 1), step):
            if 0 <= ahead < job.layers and ahead not in self.asked:
                self.asked.add(ahead)
                self.gathered[ahead] = yield from self._shard(ALL_GATHER)
        if layer in self.gathered:
            self.worker.wait_until(self.gathered.pop(layer))

    def after_layer(self, layer: int, current: Pass) -> Program:
        """Reduce the layer's gradients to their shards, and these over the replicas."""
        if not (current.backward and current.last):
            return
        end = yield from self._shard(REDUCE_SCATTER)
        job = self.scenario
        if job.sharding == "hsdp":
            group, size = self.mesh.replicas(self.worker.rank), job.layer_bytes // job.shard
            end = yield from self.collective(group, ALL_REDUCE, size, job.layers, REPLICATION, after_ns=end)
        self.pending.append(end)

    def _shard(self, name: str) -> Collective:
        group = self.mesh.shard(self.worker.rank)
        return (yield from self.collective(group, name, self.scenario.layer_bytes, self.per_step, COMMUNICATION))
