"""The simulated training loop: what one rank's program launches, step by step."""

from __future__ import annotations

from rankscope.simulator import model
from rankscope.simulator.disturbance import Disturbance
from rankscope.simulator.engine import Program, Recorded, Worker
from rankscope.simulator.programs import ways


class TrainingLoop:
    """One rank's training loop; calling it gives the program for `engine.run`."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.scenario = worker.scenario
        self.ways = ways(worker)
        self.disturbance = Disturbance(worker)

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
        yield from self._forward()
        yield from self._backward()
        for way in self.ways:
            way.before_optimizer()
        with self.worker.span("Optimizer.step#AdamW.step"):
            self.disturbance.update()
        self.disturbance.end_step()

    def _next_batch(self) -> None:
        worker = self.worker
        with worker.span("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"):
            worker.now += worker.noisy(self.scenario.loader_ns, self.scenario.host_noise)
            self.disturbance.load()
        self.disturbance.copy_batch()

    def _forward(self) -> Program:
        for way in self.ways:
            yield from way.begin_forward()
        for layer in range(self.scenario.layers):
            for way in self.ways:
                yield from way.before_layer(layer, backward=False)
            self.disturbance.stall(layer)
            for half in model.FORWARD:
                for operator, kernel, ns in half:
                    self.disturbance.launch(operator, kernel, ns)
            for way in self.ways:
                yield from way.after_layer(layer, backward=False)
        self.disturbance.launch("aten::_log_softmax", model.LOSS, model.LOSS_NS)

    def _backward(self) -> Program:
        worker = self.worker
        worker.thread = 1
        for layer in reversed(range(self.scenario.layers)):
            for way in self.ways:
                yield from way.before_layer(layer, backward=True)
            for half in model.BACKWARD:
                for node, operator, kernel, ns in half:
                    evaluated = f"autograd::engine::evaluate_function: {node}"
                    with worker.span(evaluated, "cpu_op"), worker.span(node, "cpu_op"):
                        self.disturbance.launch(operator, kernel, ns)
            for way in self.ways:
                yield from way.after_layer(layer, backward=True)
        for way in self.ways:
            yield from way.end_backward()
        worker.thread = 0
