"""Communication shows because the host is late, not because the network is slow.

Why it matters: a collective hides only under computation that is already queued. Where the host had not launched the
next kernel, neither a faster network nor more overlap returns the time.
How it is measured: exposed communication during which the next compute kernel had not been launched although the thread
that launches it was in no blocking call; it fires when that is most of the exposed communication. The cost is the
median over ranks of the median over steps.
What to do: let the host run ahead: torch.compile or CUDA graphs, fewer small operators, no synchronisation in the loop,
garbage collection on a schedule; then look at the network.
"""

from __future__ import annotations

from collections.abc import Iterator

from rankscope.analyzers.analysis import Analysis
from rankscope.analyzers.coverage import need_launches
from rankscope.analyzers.findings import Evidence, Finding
from rankscope.analyzers.pricing import of_the_step, step_share, time_finding
from rankscope.analyzers.quantities import share

TITLE = "Host-late communication"
MOST = 0.5  # of the exposed communication (ours): below it the network is the better place to look
TRIGGER_SHARE = 0.05  # of the step; TraceLens on exposed communication (AMD-AGI/TraceLens, Agent/Analysis)


def check(analysis: Analysis) -> Iterator[Finding]:
    """Report exposed communication that better overlap would not hide."""
    need_launches(analysis)
    cost = analysis.cost_ns("host_late_ns")
    exposed = float(sum(analysis.cost_ns(name) for name in ("wait_ns", "transfer_ns", "unsplit_ns")))
    if step_share(analysis, cost) <= TRIGGER_SHARE or cost <= MOST * exposed:
        return
    late = min(cost / exposed, 1.0) if exposed else 1.0
    yield time_finding(
        analysis,
        message=f"Communication lies open because the next kernel is launched late: {of_the_step(analysis, cost)}.",
        cost_ns=cost,
        evidence=[
            Evidence("exposed communication before the next launch a step", round(cost), "ns"),
            Evidence("exposed communication a step", round(exposed), "ns"),
            Evidence("of the exposed communication", late, "share"),
        ],
        advice=(
            "Let the host run ahead of the device: torch.compile or CUDA graphs, fewer small operators, no "
            "synchronisation in the loop. Prefetching and the network come after that."
        ),
        where=f"In {share(late)} of the exposed communication the host had not launched the next kernel.",
    )
