"""Distributed data parallel: every rank holds the model; buckets of gradients are all-reduced during backward."""

from __future__ import annotations

from rankscope.simulator.engine import COMMUNICATION, Program, Worker
from rankscope.simulator.mesh import ALL_REDUCE, Mesh
from rankscope.simulator.programs.way import Pass, Way
from rankscope.simulator.scenario import FaultKind


class Replicated(Way):
    """A bucket is reduced as soon as its last gradient is there; with late communication, after the backward pass.

    Of several micro-batches only the last reduces (`no_sync`).
    """

    def __init__(self, worker: Worker, mesh: Mesh) -> None:
        super().__init__(worker, mesh)
        job = worker.scenario
        self.late = job.has(FaultKind.LATE_COMMUNICATION)
        self.buckets = [layer // job.layers_per_bucket for layer in range(job.layers)]

    def after_layer(self, layer: int, current: Pass) -> Program:
        """Reduce the bucket that this layer completes."""
        completes = layer == 0 or self.buckets[layer - 1] != self.buckets[layer]
        if current.backward and current.last and completes and not self.late:
            yield from self._reduce(self.buckets[layer])

    def end(self, current: Pass) -> Program:
        """Reduce what was left for the end."""
        if current.backward and current.last and self.late:
            for bucket in reversed(range(self.buckets[-1] + 1)):
                yield from self._reduce(bucket)

    def _reduce(self, bucket: int) -> Program:
        group, size = self.mesh.shard(self.worker.rank), self.buckets.count(bucket) * self.scenario.layer_bytes
        end = yield from self.collective(group, ALL_REDUCE, size, self.buckets[-1] + 1, COMMUNICATION)
        self.pending.append(end)
