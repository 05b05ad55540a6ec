"""Communication that no computation hides.

Why it matters: collectives are free while the device computes; exposed, they lengthen the step by their whole length.
How it is measured: exposed transfer time, and exposed communication that cannot be split, without the part in which the
host had not even launched the next kernel (better overlap does not return that), without waiting for late ranks
(`straggler-rank` prices it) and without what `small-collectives` prices. The cost is the median over ranks of the
median over steps.
What to do: start collectives earlier and in larger pieces: FSDP prefetch and wrapping per block, DDP bucket_cap_mb and
static_graph, overlap with the optimizer; then a faster network.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rankscope.analyzers.analysis import Analysis, typical
from rankscope.analyzers.findings import Evidence, Finding
from rankscope.analyzers.pricing import of_the_step, step_share, time_finding
from rankscope.analyzers.quantities import share
from rankscope.analyzers.rules.small_collectives import priced_ns

TITLE = "Exposed collectives"
TRIGGER_SHARE = 0.05  # of the step; source: TraceLens's exposed-communication advice (Agent/Analysis)


def check(analysis: Analysis) -> Iterator[Finding]:
    """Report exposed communication that overlap could hide."""
    worth = analysis.part("worth_hiding_ns") - priced_ns(analysis)
    cost = float(np.median(typical(worth))) if len(worth) else 0.0
    if step_share(analysis, cost) <= TRIGGER_SHARE:
        return
    hidden = analysis.cost_ns("communication_overlapped_ns")
    exposed = cost + analysis.cost_ns("wait_ns") + analysis.cost_ns("host_late_ns")
    heaviest = max(analysis.traffic, key=lambda g: g.transfer_ns, default=None)
    where = (
        f"Mostly {heaviest.collective} of {heaviest.group}."
        if heaviest and heaviest.transfer_ns
        else "The peers' files are missing."
    )
    unsplit = analysis.cost_ns("unsplit_ns") > analysis.cost_ns("transfer_ns")
    included = ", waiting for the ranks whose files are missing included" if unsplit else ""
    yield time_finding(
        analysis,
        message=f"Collectives that no computation hides take {of_the_step(analysis, cost)}{included}.",
        cost_ns=cost,
        evidence=[
            Evidence("exposed transfer time a step", round(analysis.cost_ns("transfer_ns")), "ns"),
            Evidence("exposed time that cannot be split a step", round(analysis.cost_ns("unsplit_ns")), "ns"),
            Evidence(
                "of all exposed, before the host launched the next kernel",
                round(analysis.cost_ns("host_late_ns")),
                "ns",
            ),
            Evidence("communication hidden under compute a step", round(hidden), "ns"),
        ],
        advice=(
            "Prefetch and overlap: FSDP units per block with forward and backward prefetch, or DDP with larger "
            "buckets and static_graph."
        ),
        where=(
            f"{where} {share(hidden / (hidden + exposed)) if hidden + exposed else 'None'} of the communication is "
            "hidden."
        ),
    )
