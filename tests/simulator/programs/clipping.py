"""Gradient clipping: the norm of all gradients is one number that all ranks add up before the optimizer."""

from __future__ import annotations

from rankscope.simulator.engine import CLIPPING, Program
from rankscope.simulator.mesh import ALL_REDUCE
from rankscope.simulator.programs.way import Way
from rankscope.simulator.recording import FLOAT_BYTES


class Clipping(Way):
    """One all-reduce of all ranks; it joins the stages of a pipeline."""

    def after_reduction(self) -> Program:
        """Add up the squares, then scale."""
        end = yield from self.collective(self.mesh.world, ALL_REDUCE, FLOAT_BYTES, 1, CLIPPING)
        self.worker.wait_until(end)
