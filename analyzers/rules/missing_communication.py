"""A run of several ranks in which no communication was found.

Why it matters: ranks that train together exchange gradients. If none of it is seen, it was not recorded or is taken for
computation, and every share of communication in this report is too small.
How it is measured: more than one rank by the world size or the files, and no event that names, categories or collective
arguments tell to be communication.
What to do: record the device (activities with CUDA); look at the heaviest kernels below for the library that
communicates here, and name it with --communication NAME.
"""

from __future__ import annotations

from collections.abc import Iterator

from rankscope.analyzers.analysis import Analysis
from rankscope.analyzers.findings import Evidence, Finding
from rankscope.analyzers.quantities import plural

TITLE = "Missing communication"
RANKS = 1  # more ranks than this communicate; a plain presence test (why: facebookresearch/HolisticTraceAnalysis#360)


def check(analysis: Analysis) -> Iterator[Finding]:
    """Report a multi-rank run without communication."""
    ranks = max(analysis.run.world_size or 0, len(analysis.ranks))
    communication = any(row.communication_ns or row.communication.overlapped_ns for row in analysis.rows)
    communication = communication or analysis.cost_ns("cpu_collectives") > 0
    if ranks <= RANKS or len(analysis.matches.pool) or communication or not analysis.rows:
        return
    yield Finding(
        rule="",
        kind="validity",
        severity="warning",
        message=(
            f"A run of {plural(ranks, 'rank')} shows no communication at all: it was not recorded, or is taken for "
            "computation."
        ),
        ranks=[],
        steps=analysis.steps,
        cost_ns=None,
        cause=None,
        confidence=0.9,
        evidence=[Evidence("ranks", ranks, "count"), Evidence("communication events", 0, "count")],
        advice=(
            "Record device activity on every rank; if a library of your own communicates, name its kernels with "
            "--communication NAME."
        ),
        where="In every file of the run.",
        expected="Communication appears in the report, and ranks that wait can be told from ranks that are late.",
    )
