"""The run that `rankscope demo` shows: eight ranks on two hosts, one of which computes longer than its peers."""

from __future__ import annotations

from pathlib import Path

from rankscope.simulator import faults
from rankscope.simulator.run import simulate
from rankscope.simulator.scenario import Scenario
from rankscope.simulator.truth import Truth

SLOW_RANK = 5
SCENARIO = Scenario(
    ranks=8,
    steps=12,
    ranks_per_host=4,
    clock_offsets_ns=(0, 2_713_000),
    seed=7,
    faults=(faults.slow_compute(rank=SLOW_RANK, amount_ns=6_000_000),),
)


def write(directory: Path) -> Truth:
    """Write `rank-0.json` to `rank-7.json` into the directory, making it if need be, and return what was planted."""
    simulation = simulate(SCENARIO)
    simulation.write(directory)
    return simulation.truth
