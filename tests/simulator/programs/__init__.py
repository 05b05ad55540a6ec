"""One way of parallelising a file: what a rank says to other ranks around the layers of its model."""

from collections.abc import Sequence

from rankscope.simulator.engine import Worker
from rankscope.simulator.mesh import Mesh
from rankscope.simulator.programs.clipping import Clipping
from rankscope.simulator.programs.expert import Expert
from rankscope.simulator.programs.host_reduced import HostReduced
from rankscope.simulator.programs.one_process import OneProcess
from rankscope.simulator.programs.pipeline import Pipeline, schedule
from rankscope.simulator.programs.replicated import Replicated
from rankscope.simulator.programs.sharded import Sharded
from rankscope.simulator.programs.small_messages import SmallMessages
from rankscope.simulator.programs.tensor import Tensor
from rankscope.simulator.programs.way import Pass, Way
from rankscope.simulator.scenario import FaultKind, Scenario

__all__ = ["Pass", "Way", "schedule", "ways"]


def ways(worker: Worker, mesh: Mesh) -> Sequence[Way]:
    """The ways in which this rank's model is parallelised, in the order in which they act."""
    job = worker.scenario
    used: list[type[Way]] = [Pipeline] if job.pipeline > 1 else []
    used.append(_data_parallel(job))
    used += [Tensor] if job.tensor > 1 else []
    used += [Expert] if job.expert > 1 else []
    used += [Clipping] if job.clip_gradients else []
    used += [SmallMessages] if job.has(FaultKind.SMALL_MESSAGES) else []
    return [way(worker, mesh) for way in used]


def _data_parallel(job: Scenario) -> type[Way]:
    if job.has(FaultKind.CPU_BACKEND):
        return HostReduced
    if job.has(FaultKind.DATA_PARALLEL):
        return OneProcess
    return Replicated if job.sharding == "ddp" else Sharded
