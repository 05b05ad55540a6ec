"""Gradients that gloo reduces: copied to the host, sent over TCP, copied back, while the training thread waits."""

from __future__ import annotations

from rankscope.simulator.engine import Program, Worker
from rankscope.simulator.mesh import ALL_REDUCE, Mesh
from rankscope.simulator.model import SCALE
from rankscope.simulator.programs.way import Pass, Way
from rankscope.simulator.recording import Arrival
from rankscope.simulator.scenario import FaultKind

GLOO_THREAD = 2
COPY_BYTES_PER_S = 50_000_000_000  # pinned memory over PCIe 5 x16
PICKED_UP_NS = 20_000  # from the operator to gloo's thread, and back to the training thread
SCALE_NS = 30_000


class HostReduced(Way):
    """After the backward pass one bucket after the other is reduced and divided, as loops over `dist.all_reduce` do."""

    def __init__(self, worker: Worker, mesh: Mesh) -> None:
        super().__init__(worker, mesh)
        self.seq = 0

    def end(self, current: Pass) -> Program:
        """Reduce all gradients."""
        job = self.scenario
        if not (current.backward and current.last):
            return
        self.worker.thread = 0
        buckets = -(-job.layers // job.layers_per_bucket)
        amount = job.amount_ns(FaultKind.CPU_BACKEND, self.worker.rank, self.worker.step)
        for _ in range(buckets):
            yield from self._reduce(job.layers * job.layer_bytes // buckets, amount // buckets)

    def _reduce(self, size: int, transfer_ns: int) -> Program:
        worker, group = self.worker, self.mesh.shard(self.worker.rank)
        copy_ns = size * 10**9 // COPY_BYTES_PER_S
        with worker.span("c10d::allreduce_", "cpu_op"):
            copied = worker.copy("Memcpy DtoH (Device -> Pinned)", size, copy_ns, blocking=False)
        waiting = worker.now
        worker.thread, worker.now = GLOO_THREAD, waiting + PICKED_UP_NS
        with worker.span("gloo:all_reduce"):
            worker.call("cudaStreamSynchronize", until_ns=copied + 2_000)
            self.seq += 1
            moved = yield Arrival(
                group, ALL_REDUCE, size, size, self.seq, worker.rank, worker.step, worker.now, transfer_ns
            )
            worker.now = moved.end_ns
            worker.copy("Memcpy HtoD (Pinned -> Device)", size, copy_ns, blocking=False)
        worker.thread, worker.now = 0, worker.now + PICKED_UP_NS
        worker.call("cudaStreamWaitEvent")
        worker.launch("aten::div_", SCALE, SCALE_NS)
