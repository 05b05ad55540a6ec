"""One way of parallelising a file: what a rank says to other ranks around the layers of its model."""

from rankscope.simulator.engine import Worker
from rankscope.simulator.mesh import Mesh
from rankscope.simulator.programs.replicated import Replicated
from rankscope.simulator.programs.sharded import Sharded
from rankscope.simulator.programs.way import Way

__all__ = ["Way", "ways"]


def ways(worker: Worker) -> tuple[Way, ...]:
    """The ways in which this rank's model is parallelised."""
    mesh = Mesh(worker.scenario)
    return ((Replicated if worker.scenario.sharding == "ddp" else Sharded)(worker, mesh),)
