"""Metrics that are reduced one number at a time: collectives that cost their latency and move next to nothing."""

from __future__ import annotations

from rankscope.simulator.engine import COMMUNICATION, Program
from rankscope.simulator.mesh import ALL_REDUCE
from rankscope.simulator.programs.way import NCCL, Pass, Way
from rankscope.simulator.recording import FLOAT_BYTES
from rankscope.simulator.scenario import FaultKind


class SmallMessages(Way):
    """After the backward pass; the step goes on when each has come back."""

    def end(self, current: Pass) -> Program:
        """One all-reduce after the other, as many as cost the planted amount at the latency of the link."""
        worker, job = self.worker, self.scenario
        amount = job.amount_ns(FaultKind.SMALL_MESSAGES, worker.rank, worker.step)
        count = max(1, amount // job.link_latency_ns)
        for _ in range(count if current.backward and current.last else 0):
            sizes = FLOAT_BYTES, FLOAT_BYTES
            group, kernel, transfer = self.mesh.world, NCCL[ALL_REDUCE], amount // count
            end = yield from worker.collective(group, ALL_REDUCE, kernel, sizes, transfer, COMMUNICATION)
            worker.wait_until(end)
