"""The runs that tests of exports write: small, with waits across two clocks, overlapping kernels and a finding."""

from __future__ import annotations

import atexit
import shutil
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import rankscope
from rankscope.run import Run
from rankscope.simulator import Scenario, faults, simulate

MS = 1_000_000
LATE = 2


@cache
def simulated() -> Run:
    """Four ranks on two hosts whose clocks differ by 3 ms; rank 2 computes longer."""
    folder = Path(mkdtemp(prefix="rankscope-test-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    fault = faults.slow_compute(LATE, 2 * MS)
    scenario = Scenario(ranks=4, steps=9, layers=4, ranks_per_host=2, clock_offsets_ns=(0, 3 * MS), faults=(fault,))
    simulate(scenario).write(folder)
    return rankscope.load(folder, cache=False, jobs=1)
