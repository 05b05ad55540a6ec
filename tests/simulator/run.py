"""From a scenario to the traces and the truth."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rankscope.simulator.device_loop import DeviceLoop
from rankscope.simulator.engine import Worker
from rankscope.simulator.hardware import properties
from rankscope.simulator.kineto import RankTrace
from rankscope.simulator.mesh import Mesh
from rankscope.simulator.one_process import together
from rankscope.simulator.rendezvous import Rendezvous
from rankscope.simulator.scenario import Fault, FaultKind, Scenario
from rankscope.simulator.training import TrainingLoop
from rankscope.simulator.truth import Planted, Truth


@dataclass(frozen=True, slots=True)
class Simulation:
    """A simulated run: one trace a rank, and the truth about them."""

    scenario: Scenario
    traces: tuple[RankTrace, ...]
    truth: Truth

    def write(self, directory: Path) -> list[Path]:
        """Write `rank-N.json` for each rank into the directory; the truth stays outside, for the caller to keep."""
        directory.mkdir(parents=True, exist_ok=True)
        paths = []
        for trace in self.traces:
            path = directory / f"rank-{trace.rank}.json"
            path.write_text(trace.text(), encoding="utf-8")
            paths.append(path)
        return paths


def simulate(scenario: Scenario) -> Simulation:
    """Run the scenario. The same scenario gives the same traces, byte for byte."""
    workers = [Worker(rank, scenario) for rank in range(scenario.ranks)]
    mesh = Mesh(scenario)
    one_process = scenario.has(FaultKind.DATA_PARALLEL)
    rendezvous = Rendezvous(
        workers, lambda worker: (DeviceLoop if one_process and worker.rank else TrainingLoop)(worker, mesh)()
    )
    rendezvous.run()
    steps = tuple(range(scenario.warmup, scenario.warmup + scenario.steps))
    truth = Truth(
        planted=tuple(_planted(fault, scenario, steps) for fault in scenario.faults),
        steps=steps,
        clock_offsets_ns=tuple(scenario.clock_offset_ns(rank) for rank in range(scenario.ranks)),
        clock_drifts_ppb=tuple(scenario.clock_drift_ppb(rank) for rank in range(scenario.ranks)),
        windows=tuple(window for worker in workers for window in worker.windows),
        meetings=tuple(meeting for meeting in rendezvous.meetings if meeting.step >= scenario.warmup),
        handovers=tuple(handover for handover in rendezvous.handovers if handover.step >= scenario.warmup),
    )
    traces = tuple(
        RankTrace(
            rank=worker.rank,
            world=1 if one_process else scenario.ranks,
            host=f"node{scenario.host(worker.rank)}",
            device=worker.rank % scenario.ranks_per_host,
            devices=scenario.ranks if one_process else 1,
            properties=properties(scenario),
            backend="gloo" if scenario.has(FaultKind.CPU_BACKEND) else "nccl",
            clock_offset_ns=scenario.clock_offset_ns(worker.rank),
            clock_drift_ppb=scenario.clock_drift_ppb(worker.rank),
            groups=() if one_process else mesh.groups(worker.rank),
            recorded=together([w.recorded for w in workers]) if one_process else worker.recorded,
        )
        for worker in (workers[:1] if one_process else workers)
    )
    return Simulation(scenario, traces, truth)


def _planted(fault: Fault, scenario: Scenario, steps: tuple[int, ...]) -> Planted:
    return Planted(
        rule=fault.rule,
        cause=fault.cause,
        ranks=fault.ranks,
        group=fault.group,
        steps=tuple(step for step in steps if any(fault.hits(rank, step) for rank in range(scenario.ranks))),
        injected_ns=fault.amount_ns,
        injected_bytes=fault.amount_bytes,
    )
