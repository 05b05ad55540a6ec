"""One process drives several devices with DataParallel.

Why it matters: DataParallel copies the parameters to every device in every step, gathers outputs on one of them, and
runs all devices from threads of one Python process.
How it is measured: a range DataParallel.forward in a process that uses more than one device. The cost is what a process
a device would hide or avoid: exposed copies between devices and waiting for launches, the median over devices of the
median over steps.
What to do: torch.nn.parallel.DistributedDataParallel or FSDP with one process a device, started by torchrun.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rankscope.analyzers.analysis import Analysis, typical
from rankscope.analyzers.coverage import need_launches
from rankscope.analyzers.findings import Evidence, Finding
from rankscope.analyzers.one_rank.training_ranges import DATA_PARALLEL
from rankscope.analyzers.pricing import SILENT, of_the_step, step_share, time_finding
from rankscope.analyzers.quantities import count

TITLE = "DataParallel"
DEVICES = 1  # of one process; source: presence above it, as torch-tb-profiler's advice (pytorch/kineto, tb_plugin)


def check(analysis: Analysis) -> Iterator[Finding]:
    """Report what DataParallel costs."""
    need_launches(analysis)
    lanes = {i for i, record in enumerate(analysis.records) if DATA_PARALLEL in record.facts.wrappers}
    driven = [i for i, place in enumerate(analysis.places) if place.lane in lanes and place.device is not None]
    if len(driven) <= DEVICES * len(lanes):
        return
    copies = analysis.part("unsplit_ns") + analysis.part("transfer_ns")
    launches = analysis.part("other_ns") + analysis.part("launch_ns")
    cost = float(np.median(typical((copies + launches)[driven])))
    if step_share(analysis, cost) <= SILENT:
        return
    yield time_finding(
        analysis,
        message=(
            f"DataParallel drives {count(len(driven))} devices from one process, which costs "
            f"{of_the_step(analysis, cost)}."
        ),
        cost_ns=cost,
        evidence=[
            Evidence("exposed copies between devices a step", round(float(np.median(typical(copies[driven])))), "ns"),
            Evidence("waiting for launches a step", round(float(np.median(typical(launches[driven])))), "ns"),
            Evidence("devices", len(driven), "count"),
        ],
        advice="Use DistributedDataParallel or FSDP, one process a device: torchrun --nproc-per-node.",
        where="In DataParallel.forward.",
    )
