"""DataParallel: the ranks are devices of one process, with a thread each; the first has the model and the optimizer."""

from __future__ import annotations

from contextlib import ExitStack

from rankscope.simulator.engine import COMMUNICATION, Program, Worker
from rankscope.simulator.mesh import Mesh
from rankscope.simulator.programs.way import Pass, Way
from rankscope.simulator.recording import Arrival, Group
from rankscope.simulator.scenario import FaultKind

CHUNK_BYTES = 10_485_760  # what `replicate` copies at a time; source: torch.nn.parallel, broadcast_coalesced
BROADCAST = "ncclDevKernel_Broadcast_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
REDUCE = "ncclDevKernel_Reduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
BEFORE_ALL = -1  # the step of threads that wait for each other on the host: no collective of any step


class OneProcess(Way):
    """Parameters are broadcast before each forward pass, gradients reduced to the first device after the backward."""

    def __init__(self, worker: Worker, mesh: Mesh) -> None:
        super().__init__(worker, mesh)
        self.threads = Group("threads", "", mesh.world.ranks)
        self.joined = 0
        self.chunks = max(1, worker.scenario.layers * worker.scenario.layer_bytes // CHUNK_BYTES)
        self.forward = ExitStack()

    def begin(self, current: Pass) -> Program:
        """All threads start together; a forward pass begins with the parameters."""
        yield from self._join()
        if not current.backward:
            if self.worker.rank == 0:
                self.forward.enter_context(self.worker.span("DataParallel.forward"))
            yield from self._copy("Broadcast", BROADCAST)

    def end(self, current: Pass) -> Program:
        """The process goes on when all threads have ended; a backward pass ends with the gradients."""
        if current.backward:
            yield from self._copy("BroadcastBackward", REDUCE)
        yield from self._join()
        self.forward.close()

    def _copy(self, operator: str, kernel: str) -> Program:
        """One chunk after the other; half of the planted amount each way."""
        worker = self.worker
        amount = self.scenario.amount_ns(FaultKind.DATA_PARALLEL, worker.rank, worker.step)
        for _ in range(self.chunks):
            sizes, transfer = (CHUNK_BYTES, CHUNK_BYTES), amount // (2 * self.chunks)
            end = yield from worker.collective(self.mesh.world, operator, kernel, sizes, transfer, COMMUNICATION)
            op, work = worker.recorded.spans[-1], worker.recorded.works[-1]
            op.name, op.arrival, work.arrival = operator, None, None  # no process group says what this is
            worker.wait_until(end)

    def _join(self) -> Program:
        worker = self.worker
        self.joined += 1
        moved = yield Arrival(self.threads, "join", 0, 0, self.joined, worker.rank, BEFORE_ALL, worker.now, 0)
        worker.now = max(worker.now, moved.end_ns)
