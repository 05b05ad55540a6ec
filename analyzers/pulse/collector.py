"""The collector's account of itself: what it watched, what it could not, and what it cost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from statistics import median
from typing import Any

import numpy as np

from rankscope.analyzers.pulse.measured import CollectorReport, ProbeState
from rankscope.analyzers.pulse.model import Process, Recording


def collector_report(recording: Recording) -> CollectorReport:
    """Over the ranks of the reported attempt."""
    processes = recording.processes
    shares = {p.rank: found for p in processes if (found := overhead_share(p)) is not None}
    budgets = [found for p in processes if (found := _share(p.manifest.overhead.get("budget_share"))) is not None]
    hooks = [float(np.median(p.steps.hooks_ns[known])) for p in processes if (known := p.steps.valid("hooks_ns")).any()]
    every = [found for p in processes if isinstance(found := p.manifest.overhead.get("every"), int) and found > 0]
    return CollectorReport(
        modes=sorted({p.manifest.mode for p in processes}),
        probes=_probes(processes),
        overhead_share=max(shares.values(), default=None),
        budget_share=min(budgets, default=None),
        overhead_by_rank={str(rank): share for rank, share in shares.items()},
        hooks_ns=round(median(hooks)) if hooks else None,
        every=max(every, default=1),
        windows=max((len(p.traces) for p in processes), default=0),
        bytes=sum(p.bytes for p in recording.all),
    )


def overhead_share(process: Process) -> float | None:
    """Of the steps' wall time, as its manifest says it; while it runs, or after a kill, by its steps' own account."""
    told = _share(process.manifest.overhead.get("share"))
    if told is not None:
        return told
    known = process.steps.valid("hooks_ns")
    wall = int(process.steps.wall_ns[known].sum())
    return int(process.steps.hooks_ns[known].sum()) / wall if wall else None


def _share(value: Any) -> float | None:  # noqa: ANN401 (any JSON value)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e6 else None


def _probes(processes: Sequence[Process]) -> list[ProbeState]:
    """One entry a probe, state and reason; what failed first, then what was skipped."""
    ranks: dict[tuple[str, str, str], list[int]] = defaultdict(list)
    for process in processes:
        for name, told in list(process.manifest.probes.items())[:200]:
            state, _, reason = str(told).partition(": ")
            known = state if state in ("on", "off", "skipped", "failed") else "on"
            ranks[str(name)[:100], known, reason[:300]].append(process.rank)
    order = ("failed", "skipped", "off", "on")
    found = [ProbeState(name, state, reason, sorted(where)) for (name, state, reason), where in ranks.items()]
    return sorted(found, key=lambda probe: (order.index(probe.state), probe.name))
