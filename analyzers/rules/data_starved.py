"""The device stands still while the training thread waits for its next batch.

Why it matters: every nanosecond of it is a device paid for and not used, on every rank at once.
How it is measured: time in which the device is idle, the host has not asked for work, and the thread that carries the
step marks is inside its DataLoader's __next__ (on a CPU-only run: any time in __next__ without computation elsewhere).
A loader behind a busy device costs nothing and is not counted. The cost is the median over ranks of the median over
steps.
What to do: more workers (num_workers), prefetch_factor, persistent_workers=True and pin_memory=True; then cheaper
transforms, local or larger shards. A loader with num_workers=0 loads in the training thread itself.
"""

from __future__ import annotations

from collections.abc import Iterator

from rankscope.analyzers.analysis import Analysis
from rankscope.analyzers.findings import Evidence, Finding, MissingSignal
from rankscope.analyzers.pricing import of_the_step, step_share, time_finding
from rankscope.analyzers.quantities import count

TITLE = "Starved for data"
TRIGGER_SHARE = 0.05  # of the step; source: torch-tb-profiler's DataLoader advice (tb_plugin profiler/data.py)
RECORD = "with torch.profiler.record_function('rankscope.data'): batch = next(batches)"


def check(analysis: Analysis) -> Iterator[Finding]:
    """Report the exposed loader time when it is above the trigger."""
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
