"""What a thread of DataParallel does that drives another device than the first: forward and backward, nothing else."""

from __future__ import annotations

from rankscope.simulator.engine import Program
from rankscope.simulator.programs import schedule
from rankscope.simulator.training import TrainingLoop


class DeviceLoop(TrainingLoop):
    """Batches, optimizer and checkpoints are the first device's."""

    def _step(self) -> Program:
        for current in schedule(self.scenario, self.worker.rank):
            yield from self._pass(current)
