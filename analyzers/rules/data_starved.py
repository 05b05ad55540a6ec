"""The device stands still while the training thread waits for its next batch.

Why it matters: every nanosecond of it is a device paid for and not used, on every rank at once.
How it is measured: time in which the device is idle, the host has not asked for work, and the thread that carries the
step marks is inside its DataLoader's __next__ (on a CPU-only run: any time in __next__ without computation elsewhere).
A loader behind a busy device costs nothing and is not counted. The cost is the median over ranks of the median over
steps. Without a trace: the median over ranks of the pulse's stage `data`, its waits left out; on a device only where
device times were recorded.
What to do: more workers (num_workers), prefetch_factor, persistent_workers=True and pin_memory=True; then cheaper
transforms, local or larger shards. A loader with num_workers=0 loads in the training thread itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from rankscope.analyzers.analysis import Analysis
from rankscope.analyzers.findings import CannotTell, Evidence, Finding, MissingSignal
from rankscope.analyzers.pricing import of_the_step, step_share, time_finding
from rankscope.analyzers.pulse.either import either
from rankscope.analyzers.pulse.pulse import Pulse
from rankscope.analyzers.pulse.tables import STAGES
from rankscope.analyzers.quantities import count

TITLE = "Starved for data"
TRIGGER_SHARE = 0.05  # of the step; source: torch-tb-profiler's DataLoader advice (tb_plugin profiler/data.py)
READS = ("traces", "pulse")
RECORD = "with torch.profiler.record_function('rankscope.data'): batch = next(batches)"


def check(analysis: Analysis) -> Iterable[Finding]:
    """Report the exposed loader time when it is above the trigger."""
    return either(analysis, by_traces, by_pulse)


def by_traces(analysis: Analysis) -> Iterator[Finding]:
    """As traces show it."""
    if not any(record.facts.has_loader for record in analysis.records):
        raise MissingSignal("no DataLoader range was recorded", RECORD)
    cost = analysis.cost_ns("data_loading_ns")
    if step_share(analysis, cost) <= TRIGGER_SHARE:
        return
    calls, single = analysis.cost_ns("loader_calls"), analysis.cost_ns("single_process_calls")
    alone = single > 0 and single >= calls
    yield time_finding(
        analysis,
        message=f"Training waits for data {of_the_step(analysis, cost)}.",
        cost_ns=cost,
        evidence=[
            Evidence("exposed loader time a step", round(cost), "ns", analysis.exemplars("data_loading")),
            Evidence(
                "loader time hidden behind the device, with copies", round(analysis.cost_ns("io_overlapped_ns")), "ns"
            ),
            Evidence("loader calls a step", round(calls), "count"),
            Evidence("calls without worker processes", round(single), "count"),
        ],
        advice=(
            "Load in worker processes: DataLoader(num_workers=4, persistent_workers=True, pin_memory=True)."
            if alone
            else "Raise num_workers and prefetch_factor, then make the transforms and the storage behind them cheaper."
        ),
        where=f"In the DataLoader's __next__, {count(calls)} a step"
        + (", in the training thread itself (num_workers=0)." if alone else "."),
    )


def by_pulse(pulse: Pulse) -> Iterator[Finding]:
    """As the pulse alone shows it."""
    if not len(pulse.usable):
        raise CannotTell("the ranks' pulses have no step in common")
    data = STAGES.index("data")
    spent = pulse.by_stage("device" if pulse.on_device else "")[:, pulse.usable, data]
    if np.isnan(spent).all():
        raise CannotTell("the loader's time may be hidden behind the device, and no device times were recorded")
    waited = np.zeros_like(spent) if pulse.on_device else np.nan_to_num(pulse.wait_ns[:, pulse.usable, data])
    by_rank = np.nanmedian(np.nan_to_num(spent) - waited, axis=1)
    cost = float(np.median(by_rank))
    if step_share(pulse, cost) <= TRIGGER_SHARE:
        return
    yield time_finding(
        pulse,
        message=f"Training waits for data {of_the_step(pulse, cost)}.",
        cost_ns=cost,
        evidence=[
            Evidence("data loading a step, median over ranks", round(cost), "ns"),
            Evidence("on the rank where it is least", round(float(by_rank.min())), "ns"),
            Evidence("on the rank where it is most", round(float(by_rank.max())), "ns"),
            Evidence("stage", "data", "text"),
        ],
        advice="Raise num_workers and prefetch_factor, then make the transforms and the storage behind them cheaper.",
        where="In the DataLoader's __next__, on every rank.",
    )
