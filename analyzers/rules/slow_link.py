"""One group's collectives move their bytes more slowly than those of its sister groups.

Why it matters: a degraded cable, rail or network card, or PCIe where NVLink should be, slows one group and with it
every rank.
How it is measured: transfer time (from the last arrival to the end, never the whole duration) of groups of the same
size with the same collectives of the same bytes. A group is slow when its bus bandwidth is below 0.7 of the median of
its sisters, step after step. The cost is its excess transfer time that no computation hides.
What to do: look at nvidia-smi topo -m, cabling and rails of the hosts in the group; check NCCL_IB_HCA and the links'
error counters.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rankscope.analyzers.across_ranks.traffic import GroupTime, bus_factor
from rankscope.analyzers.analysis import Analysis
from rankscope.analyzers.findings import Evidence, Finding, MissingSignal
from rankscope.analyzers.persistence import Persistence, persistence
from rankscope.analyzers.pricing import SILENT, of_the_step, step_share, time_finding, unsure
from rankscope.analyzers.quantities import share, spans

TITLE = "Slow link"
RATIO = 0.7  # of the sisters' bus bandwidth (ours; transfer time as in nccl-tests, peer comparison as in MegaScan's P2P test)
RECORD = "pip install 'torch>=2.2'  # writes group, size and dtype of NCCL collectives; record every rank of the run"


def check(analysis: Analysis) -> Iterator[Finding]:
    """Report groups that are slower than their sisters."""
    families: dict[tuple[int, str, int | None], list[GroupTime]] = {}
    for time in analysis.group_times:
        if time.bytes is not None:
            families.setdefault((len(time.ranks), time.collective, time.bytes), []).append(time)
    families = {key: times for key, times in families.items() if len({t.ranks for t in times}) > 1}
    if not families:
        raise MissingSignal(
            "no two groups move the same bytes with the same collective, so none can be compared", RECORD
        )
    slow: dict[tuple[int, ...], list[tuple[GroupTime, np.ndarray[tuple[int], np.dtype[np.float64]]]]] = {}
    for times in families.values():
        for time in times:
            usual = np.median([t.transfer_ns for t in times if t.ranks != time.ranks], axis=0)
            moved = time.transfer_ns.sum()
            if moved > 0 and usual.sum() < RATIO * moved:
                slow.setdefault(time.ranks, []).append((time, time.transfer_ns - usual))
    for ranks, parts in slow.items():
        yield from _finding(analysis, ranks, parts, len(slow))


def behind_slow_links(analysis: Analysis) -> set[int]:
    """The ranks that this rule names."""
    try:
        return {rank for finding in check(analysis) for rank in finding.ranks}
    except MissingSignal:
        return set()


def _finding(
    analysis: Analysis,
    ranks: tuple[int, ...],
    parts: list[tuple[GroupTime, np.ndarray[tuple[int], np.dtype[np.float64]]]],
    candidates: int,
) -> Iterator[Finding]:
    excess = np.sum([more for _, more in parts], axis=0)
    members = [i for i, place in enumerate(analysis.places) if place.rank in ranks]
    shown = analysis.part("transfer_ns")[members]
    exposed = np.nanmedian(shown, axis=0) if shown.size else np.zeros_like(excess)
    cost = float(np.median(np.minimum(excess, np.nan_to_num(exposed))))
    persists = persistence(excess, analysis.step_ns, max(candidates, len(analysis.ranks) // max(len(ranks), 1)))
    if persists in (Persistence.NONE, Persistence.TOO_FEW) or step_share(analysis, cost) <= SILENT:
        return
    worst, more = max(parts, key=lambda p: float(p[1].sum()))
    took = float(worst.transfer_ns.sum())
    usual = took - float(more.sum())
    rate = bus_factor(worst.collective, len(ranks)) * (worst.bytes or 0) * worst.operations / (took / 1e9)
    finding = time_finding(
        analysis,
        message=(
            f"Collectives among ranks {spans(ranks)} are slower than in like groups: {of_the_step(analysis, cost)}."
        ),
        cost_ns=cost,
        evidence=[
            Evidence(f"bus bandwidth of {worst.collective} in this group", rate, "bytes_per_s"),
            Evidence("bus bandwidth in its sister groups", rate * took / usual if usual else rate, "bytes_per_s"),
            Evidence("share of the sisters' bandwidth", usual / took, "share"),
            Evidence("excess transfer time a step", round(float(np.median(excess))), "ns"),
        ],
        advice=(
            "Check the links of these ranks' hosts: nvidia-smi topo -m, nvidia-smi nvlink -e, rail and cable, "
            "NCCL_IB_HCA."
        ),
        where=f"Ranks {spans(ranks)}: {worst.collective} at {share(usual / took)} of the usual bandwidth.",
        ranks=ranks,
    )
    yield finding if persists is Persistence.TESTED else unsure(finding)
