"""The runs that `rankscope demo` shows: eight ranks on two hosts with one planted fault, by default a rank that computes
longer than its peers.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from rankscope.simulator import faults
from rankscope.simulator.run import simulate
from rankscope.simulator.scenario import Fault, Scenario
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
_SISTERS = replace(SCENARIO, ranks=16, sharding="hsdp", layers=6)  # groups that can be compared
# Faults that a job of plain data parallelism cannot have, or that take more steps to be seen.
_JOBS: Mapping[str, Scenario] = {
    "slow-link": _SISTERS,
    "slow-network": _SISTERS,
    "uneven-experts": replace(SCENARIO, expert=4),
    "slower-since": replace(SCENARIO, steps=30, layers=6),
    "recurring-pause": replace(SCENARIO, steps=40, layers=6),
    "heavy-stage": replace(SCENARIO, pipeline=4, micro_batches=8, layers=2),
}


def plantable() -> dict[str, Callable[..., Fault]]:
    """The constructors of `faults` by the names that the command line gives them."""
    made = {name: make for name, make in vars(faults).items() if inspect.isfunction(make)}
    return {name.replace("_", "-"): make for name, make in made.items()}


def scenario(fault: str) -> Scenario:
    """A job with this fault, at its usual size. KeyError: there is no such fault."""
    planted = faults.slow_link(group="2") if fault == "slow-link" else plantable()[fault]()
    return replace(_JOBS.get(fault, SCENARIO), faults=(planted,))


def write(directory: Path, fault: str | None = None) -> Truth:
    """Write `rank-0.json`, `rank-1.json` and so on into the directory, making it if need be; return what was planted."""
    simulation = simulate(SCENARIO if fault is None else scenario(fault))
    simulation.write(directory)
    return simulation.truth
