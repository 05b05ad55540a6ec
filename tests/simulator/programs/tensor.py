"""Tensor parallel, as Megatron does it: each half of a layer is divided over the ranks of a host, then reduced."""

from __future__ import annotations

from rankscope.simulator.engine import TENSOR, Program
from rankscope.simulator.mesh import ALL_GATHER, ALL_REDUCE, REDUCE_SCATTER
from rankscope.simulator.programs.way import Pass, Way


class Tensor(Way):
    """An all-reduce after each half of a layer in both passes.

    With sequence parallelism each half gathers the sequence before and reduces it to shards after. The next half needs
    what the collective brings, so that nothing hides it.
    """

    def before_half(self, half: int, current: Pass) -> Program:
        """Gather the sequence."""
        if self.scenario.sequence_parallel:
            yield from self._together(ALL_GATHER)

    def after_half(self, half: int, current: Pass) -> Program:
        """Add up what the ranks computed."""
        yield from self._together(REDUCE_SCATTER if self.scenario.sequence_parallel else ALL_REDUCE)

    def _together(self, name: str) -> Program:
        job = self.scenario
        per_step = (8 if job.sequence_parallel else 4) * job.layers * job.micro_batches
        group = self.mesh.tensor(self.worker.rank)
        end = yield from self.collective(group, name, job.activation_bytes, per_step, TENSOR)
        self.worker.wait_until(end)
