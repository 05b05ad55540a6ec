"""The simulated training loop: what one rank's program launches, step by step."""

from __future__ import annotations

from math import prod

from rankscope.simulator import model
from rankscope.simulator.disturbance import Disturbance
from rankscope.simulator.engine import Program, Worker
from rankscope.simulator.mesh import Mesh
from rankscope.simulator.programs import Pass, schedule, ways
from rankscope.simulator.recording import Recorded


class TrainingLoop:
    """One rank's training loop; calling it gives the program for `rendezvous`."""

    def __init__(self, worker: Worker, mesh: Mesh) -> None:
        self.worker = worker
        self.scenario = worker.scenario
        self.ways = ways(worker, mesh)
        self.disturbance = Disturbance(worker)
        self.last_stage = worker.rank >= self.scenario.ranks - self.scenario.ranks // self.scenario.pipeline

    def __call__(self) -> Program:
        """Warm up, then record `steps` steps."""
        worker, job = self.worker, self.scenario
        for step in range(job.warmup + job.steps):
            if step == job.warmup:
                worker.drain("cudaDeviceSynchronize")
                worker.recorded, worker.windows = Recorded(), []
            worker.begin_window(step)
            with worker.span(f"ProfilerStep#{step}"):
                yield from self._step()
        worker.end_windows()
        worker.drain("cudaDeviceSynchronize")

    def _step(self) -> Program:
        self._next_batch()
        for current in schedule(self.scenario, self.worker.rank):
            yield from self._pass(current)
        for way in self.ways:
            way.before_optimizer()
        for way in self.ways:
            yield from way.after_reduction()
        with self.worker.span("Optimizer.step#AdamW.step"):
            self.disturbance.update()
        self.disturbance.end_step()
        yield from self._now_and_then()

    def _next_batch(self) -> None:
        worker = self.worker
        with worker.span("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"):
            worker.now += worker.noisy(self.scenario.loader_ns)
            self.disturbance.load()
        self.disturbance.copy_batch()

    def _pass(self, current: Pass) -> Program:
        """One micro-batch through all layers of this stage, forward or backward."""
        job = self.scenario
        self.worker.thread = int(current.backward)
        for way in self.ways:
            yield from way.begin(current)
        if current.backward:
            self.disturbance.head(backward=True)
        for layer in reversed(range(job.layers)) if current.backward else range(job.layers):
            for way in self.ways:
                yield from way.before_layer(layer, current)
            if current.micro_batch == 0 and not current.backward:
                self.disturbance.stall(layer)
            for half in (1, 0) if current.backward else (0, 1):
                yield from self._half(half, current)
            self.disturbance.keep(backward=current.backward)
            for way in self.ways:
                yield from way.after_layer(layer, current)
        if not current.backward:
            self.disturbance.head(backward=False)
            operator = "aten::_log_softmax" if self.last_stage else "aten::to"
            self.disturbance.launch(operator, model.LOSS if self.last_stage else model.CAST, model.LOSS_NS)
        for way in self.ways:
            yield from way.end(current)
        self.worker.thread = 0

    def _half(self, half: int, current: Pass) -> Program:
        for way in self.ways:
            yield from way.before_half(half, current)
        if self.scenario.cuda_graphs:
            with self.worker.graph():
                self._kernels(half, current)
        else:
            self._kernels(half, current)
        for way in self.ways:
            yield from way.after_half(half, current)

    def _kernels(self, half: int, current: Pass) -> None:
        worker, work = self.worker, prod(way.work(half) for way in self.ways)
        if not current.backward:
            for operator, kernel, ns in model.FORWARD[half]:
                self.disturbance.launch(operator, kernel, round(work * ns))
            return
        for node, operator, kernel, ns in model.BACKWARD[half]:
            with worker.span(f"autograd::engine::evaluate_function: {node}", "cpu_op"), worker.span(node, "cpu_op"):
                self.disturbance.launch(operator, kernel, round(work * ns))

    def _now_and_then(self) -> Program:
        """Checkpoints and evaluations that are part of a healthy run."""
        worker, job = self.worker, self.scenario
        if job.checkpoint_every and worker.step % job.checkpoint_every == 0:
            with worker.span("torch.distributed.checkpoint.async_save"):
                worker.starve(job.checkpoint_ns)
        if job.evaluate_every and worker.step % job.evaluate_every == 0:
            with worker.span("evaluate"):
                yield from self._pass(Pass(job.micro_batches, backward=False, last=False))
                with worker.span("aten::item", "cpu_op"), worker.span("aten::_local_scalar_dense", "cpu_op"):
                    worker.copy("Memcpy DtoH (Device -> Pinned)", 4, 2_000, blocking=False)
                    worker.drain("cudaStreamSynchronize")
