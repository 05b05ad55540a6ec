"""Pipeline parallel: a stage receives activations, computes, sends them on; gradients come back the same way."""

from __future__ import annotations

from collections.abc import Iterator

from rankscope.simulator.engine import BACKWARD_IN, BACKWARD_OUT, FORWARD_IN, FORWARD_OUT, Collective, Program
from rankscope.simulator.mesh import RECEIVE, SEND
from rankscope.simulator.programs.way import NCCL, Pass, Way
from rankscope.simulator.scenario import FaultKind, Scenario


class Pipeline(Way):
    """Each direction has communicators, and so streams, of its own: a send never queues behind a receive.

    A sender copies into its receiver's buffer and goes on (NCCL's eager case).
    """

    def begin(self, current: Pass) -> Program:
        """Wait for the stage before: in the backward pass for the one after."""
        end = yield from self._with(
            1 if current.backward else -1, RECEIVE, BACKWARD_IN if current.backward else FORWARD_IN
        )
        if end:
            self.worker.wait_until(end)

    def end(self, current: Pass) -> Program:
        """Send on what was computed."""
        yield from self._with(-1 if current.backward else 1, SEND, BACKWARD_OUT if current.backward else FORWARD_OUT)

    def _with(self, distance: int, name: str, stream: int) -> Collective:
        """Send to or receive from the stage so many after this; 0 where there is none."""
        job, worker = self.scenario, self.worker
        group = self.mesh.pipeline(worker.rank)
        other = group.ranks.index(worker.rank) + distance
        if not 0 <= other < job.pipeline or job.has(FaultKind.NO_COMMUNICATION):
            return 0
        size = job.activation_bytes
        transfer = self.mesh.transfer_ns(group, name, size, 2 * job.micro_batches)
        peer = group.ranks[other]
        return (yield from worker.collective(group, name, NCCL[name], (size, size), transfer, stream, peer=peer))


def schedule(scenario: Scenario, rank: int) -> Iterator[Pass]:
    """One step's passes on this rank: one forward, one backward (1F1B), after as many forwards as stages follow."""
    count = scenario.micro_batches
    stage = rank * scenario.pipeline // scenario.ranks
    ahead = min(scenario.pipeline - stage - 1, count)
    for position in range(count + ahead):
        if position < count:
            yield Pass(position, backward=False, last=False)
        if position >= ahead:
            yield Pass(position - ahead, backward=True, last=position - ahead == count - 1)
