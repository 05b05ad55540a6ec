"""Expert parallel: tokens travel to the rank that holds their expert, and back, in both passes."""

from __future__ import annotations

from rankscope.simulator import model
from rankscope.simulator.engine import EXPERT, EXPERT_REPLICATION, Program, Worker
from rankscope.simulator.mesh import ALL_REDUCE, ALL_TO_ALL, Mesh
from rankscope.simulator.programs.way import NCCL, Pass, Way
from rankscope.simulator.recording import FLOAT_BYTES
from rankscope.simulator.scenario import FaultKind


class Expert(Way):
    """The feed-forward half is a mixture of experts: an all-to-all before it, another after it.

    With imbalance the first rank of each group gets more tokens than the mean, the others fewer. The experts'
    gradients are reduced over the ranks that hold the same ones.
    """

    def __init__(self, worker: Worker, mesh: Mesh) -> None:
        super().__init__(worker, mesh)
        job = worker.scenario
        self.group = mesh.experts(worker.rank)
        self.place = self.group.ranks.index(worker.rank)
        more = [job.expert_imbalance, *[0.0] * (job.expert - 1)]
        for place, rank in enumerate(self.group.ranks):
            more[place] += job.amount_ns(FaultKind.UNEVEN_EXPERTS, rank, 0) / model.experts_ns(job)
        fewer = sum(more) / (job.expert - 1)
        self.loads = tuple(1 + own * job.expert / (job.expert - 1) - fewer for own in more)  # tokens by rank over mean
        if min(self.loads) < 0:
            raise ValueError("more tokens for one expert than there are")
        mean = job.activation_bytes / FLOAT_BYTES / job.expert
        self.elements = tuple(round(mean * load) for load in self.loads)  # from each rank to each

    def before_half(self, half: int, current: Pass) -> Program:
        """Dispatch tokens, or their gradients, to the experts."""
        if half == 1:
            yield from self._exchange(self.elements, (self.elements[self.place],) * len(self.elements))

    def work(self, half: int) -> float:
        """The experts work as much as they have tokens."""
        return self.loads[self.place] if half == 1 else 1.0

    def after_half(self, half: int, current: Pass) -> Program:
        """Combine: everything goes back to where it came from."""
        if half == 1:
            yield from self._exchange((self.elements[self.place],) * len(self.elements), self.elements)

    def after_layer(self, layer: int, current: Pass) -> Program:
        """Reduce the experts' gradients."""
        replicas, job = self.mesh.expert_replicas(self.worker.rank), self.scenario
        if current.backward and current.last and replicas is not None:
            end = yield from self.collective(replicas, ALL_REDUCE, job.layer_bytes, job.layers, EXPERT_REPLICATION)
            self.pending.append(end)

    def _exchange(self, in_splits: tuple[int, ...], out_splits: tuple[int, ...]) -> Program:
        job = self.scenario
        if job.has(FaultKind.NO_COMMUNICATION):
            return
        sizes = FLOAT_BYTES * sum(in_splits), FLOAT_BYTES * sum(out_splits)
        transfer = self.mesh.transfer_ns(self.group, ALL_TO_ALL, max(sizes), 4 * job.layers * job.micro_batches)
        end = yield from self.worker.collective(
            self.group, ALL_TO_ALL, NCCL[ALL_TO_ALL], sizes, transfer, EXPERT, splits=(in_splits, out_splits)
        )
        self.worker.wait_until(end)
