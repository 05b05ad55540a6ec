"""torch.compile compiles when training should long be steady.

Why it matters: one compilation takes seconds to minutes, and every rank waits for the one that compiles.
How it is measured: time in which the device waits for launches while torch.compile compiles, in steps numbered 10 and up;
summed over the usable ones of these, divided by the number of usable steps, on the rank where it is largest.
What to do: TORCH_LOGS=recompiles names the guard that failed; mark_dynamic, padding to a few sizes, or dynamic=True for
shapes, and no Python values that change from step to step.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rankscope.analyzers.analysis import Analysis
from rankscope.analyzers.coverage import need_launches
from rankscope.analyzers.findings import CannotTell, Evidence, Finding
from rankscope.analyzers.pricing import SILENT, of_the_step, step_share, time_finding

TITLE = "Late compilation"
WARM = 10  # ProfilerStep from which on a compilation is late (ours): graphs, sizes and guards settle within a few steps


def check(analysis: Analysis) -> Iterator[Finding]:
    """Report compilation after warm-up."""
    need_launches(analysis)
    late = np.array([step is not None and step >= WARM for step in map(analysis.columns.__getitem__, analysis.usable)])
    spent, compiles = analysis.part("compile_idle_ns"), analysis.part("compiles")
    if not spent.size or not np.nansum(spent):
        return
    if not late.any():
        raise CannotTell(f"compilation was seen, but no step numbered {WARM} or more, so it may be warm-up")
    by_place = np.nansum(spent[:, late], axis=1)
    cost = float(by_place.max()) / spent.shape[1]
    if step_share(analysis, cost) <= SILENT:
        return
    most = int(by_place.argmax())
    hit = int((np.nan_to_num(spent[most]) > 0).sum())
    yield time_finding(
        analysis,
        message=f"Compilation after warm-up holds training up {of_the_step(analysis, cost)} on average.",
        cost_ns=cost,
        evidence=[
            Evidence("waiting for compilation over all usable steps", round(float(by_place.max())), "ns"),
            Evidence("steps with a compilation", hit, "count"),
            Evidence("compilations in these steps", round(float(np.nansum(compiles[most, late]))), "count"),
            Evidence("rank with most", analysis.places[most].rank, "count"),
        ],
        advice=(
            "Run with TORCH_LOGS=recompiles to see which guard fails; mark_dynamic or pad what changes, keep changing "
            "Python values out of the compiled function."
        ),
        where=f"In {hit} of {spent.shape[1]} usable steps.",
    )
