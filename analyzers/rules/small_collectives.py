"""Communication in pieces too small for the network.

Why it matters: every collective pays a latency of tens of microseconds however small it is; many small ones never reach
the bandwidth of the links.
How it is measured: any of three. Collectives below 64 kB take more than 20 % of all transfer time; the median all-gather
of an FSDP model is below 1 MB; a DDP model's all-reduces are more than 20 a step and smaller than 5 MB on average (the
last two without messages below 64 kB, and only where each rank has them in one group). The cost is what of these small
collectives is exposed, without waiting and without what the host was late for: the median over ranks of the median over
steps.
What to do: wrap larger blocks with FSDP, raise DDP's bucket_cap_mb, gather metrics into one tensor and reduce them every
k steps, torch.distributed's coalescing manager.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rankscope.analyzers.analysis import Analysis, Floats, typical
from rankscope.analyzers.findings import Evidence, Finding, MissingSignal
from rankscope.analyzers.intervals import Bools
from rankscope.analyzers.one_rank.training_ranges import DDP, FSDP
from rankscope.analyzers.pricing import SILENT, of_the_step, step_share, time_finding
from rankscope.analyzers.quantities import count, size

TITLE = "Small collectives"
SMALL_BYTES = 65_536  # one message (ours): latency outweighs transfer
SMALL_SHARE = 0.20  # of all transfer time (ours)
UNIT_BYTES = 1_000_000  # the median all-gather of FSDP (ours)
BUCKET_BYTES = 5_000_000  # the mean all-reduce of DDP (ours); its buckets hold 25 MB by default
BUCKETS = 20  # all-reduces a step (ours)
RECORD = "pip install 'torch>=2.2'  # writes group, size and dtype of NCCL collectives"
_MOVING = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce", "gather", "scatter")


def check(analysis: Analysis) -> Iterator[Finding]:
    """Report small collectives that lie open."""
    pool = analysis.matches.pool
    if not len(pool):
        return
    if not pool.has_bytes.any():
        raise MissingSignal("the sizes of collectives were not recorded", RECORD)
    kinds = _kinds(analysis)
    chosen = np.logical_or.reduce(list(kinds.values()))
    cost = _cost_ns(analysis, chosen)
    if step_share(analysis, cost) <= SILENT:
        return
    per_step = float(chosen.sum()) / len(analysis.ranks) / max(len(analysis.usable), 1)
    middle = float(np.median(pool.bytes[chosen]))
    what = {"fsdp": "FSDP units", "ddp": "DDP buckets", "small": "messages below 64 kB"}
    yield time_finding(
        analysis,
        message=f"Small collectives lie open {of_the_step(analysis, cost)}.",
        cost_ns=cost,
        evidence=[
            Evidence("exposed transfer of small collectives a step", round(cost), "ns"),
            Evidence("small collectives a step", round(per_step), "count"),
            Evidence("median size of them", round(middle), "bytes"),
        ],
        advice=(
            "Move more at a time: larger FSDP units, a larger bucket_cap_mb, metrics reduced as one tensor and every k "
            "steps."
        ),
        where=(
            f"{', '.join(what[kind] for kind, some in kinds.items() if some.any())}: {count(round(per_step))} a step of "
            f"{size(middle)}."
        ),
    )


def priced_ns(analysis: Analysis) -> Floats | float:
    """What this rule prices, by (place, usable step); 0 where it is silent."""
    if not analysis.matches.pool.has_bytes.any():
        return 0.0
    chosen = np.logical_or.reduce(list(_kinds(analysis).values()))
    silent = step_share(analysis, _cost_ns(analysis, chosen)) <= SILENT
    return 0.0 if silent else analysis.worth_hiding_of(chosen)


def _cost_ns(analysis: Analysis, chosen: Bools) -> float:
    if not chosen.any() or not analysis.places:
        return 0.0
    return float(np.median(typical(analysis.worth_hiding_of(chosen))))


def _kinds(analysis: Analysis) -> dict[str, Bools]:
    """Which records of the usable steps are too small, and by which of the three measures."""
    pool = analysis.matches.pool
    transfer = pool.end - pool.start - analysis.splits.wait
    moving = np.isin(pool.word, [i for i, word in enumerate(pool.words) if word in _MOVING])
    here = pool.has_bytes & moving & np.isin(analysis.step_of, analysis.usable)
    wrappers = {wrapper for record in analysis.records for wrapper in record.facts.wrappers}
    steps = max(len(analysis.usable), 1) * len(analysis.ranks)
    small = here & (pool.bytes < SMALL_BYTES)
    found = {"small": small if transfer[small].sum() > SMALL_SHARE * transfer[here].sum() else small & False}
    gathers = here & ~small & _is(analysis, "all_gather")
    if FSDP in wrappers and _of_one_group(analysis, gathers) and np.median(pool.bytes[gathers]) < UNIT_BYTES:
        found["fsdp"] = (gathers | (here & _is(analysis, "reduce_scatter"))) & (pool.bytes < UNIT_BYTES)
    buckets = here & ~small & _is(analysis, "all_reduce")
    many = buckets.sum() > BUCKETS * steps
    if DDP in wrappers and many and _of_one_group(analysis, buckets) and pool.bytes[buckets].mean() < BUCKET_BYTES:
        found["ddp"] = buckets & (pool.bytes < BUCKET_BYTES)
    return found


def _of_one_group(analysis: Analysis, chosen: Bools) -> bool:
    """Whether there are such records, and each rank's belong to one group: else some may be a tensor group's."""
    pool = analysis.matches.pool
    pairs = np.unique(pool.lane[chosen] * len(pool.groups) + pool.group[chosen])
    return 0 < len(pairs) == len(np.unique(pool.lane[chosen]))


def _is(analysis: Analysis, word: str) -> Bools:
    pool = analysis.matches.pool
    found: Bools = pool.word == (pool.words.index(word) if word in pool.words else -1)
    return found
