"""The work is divided unevenly: between experts, or between the stages of a pipeline.

Why it matters: an all-to-all takes as long as the rank with most bytes, a pipeline runs at the pace of its heaviest
stage, and this is so on healthy hardware.
How it is measured: of all-to-all collectives, the bytes of the rank with most over the mean, step by step; the cost is
what even sizes would return: a part of their exposed transfer, and of the waiting in them no more than that rank
computes above the mean of its group. Of a pipeline, told by sends and receives between
neighbours, the computation of each stage, the median over its ranks (the lower of two: one slow rank is no heavy
stage), against the median stage; the cost is what the heaviest stage computes above the mean stage. Either must lead
step after step.
What to do: for experts an auxiliary loss, a capacity factor, or another placement; for a pipeline fewer layers on the
heavy stage (often the last: head and loss), or a vocabulary split over ranks.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from rankscope.analyzers.analysis import Analysis, typical
from rankscope.analyzers.findings import Evidence, Finding
from rankscope.analyzers.persistence import Persistence, persistence
from rankscope.analyzers.pricing import SILENT, of_the_step, step_share, time_finding, unsure
from rankscope.analyzers.quantities import share, spans

TITLE = "Uneven work"
BYTES = 1.2  # of the mean (ours; the measure is TraceLens's size_imbalance)
STAGE = 1.1  # of the median stage (ours; 1.23 on the pipeline of arXiv 2505.05713)
Floats = npt.NDArray[np.float64]


def check(analysis: Analysis) -> Iterator[Finding]:
    """Report uneven all-to-alls and a heavy stage."""
    yield from _all_to_all(analysis)
    yield from _pipeline(analysis)


def _all_to_all(analysis: Analysis) -> Iterator[Finding]:
    pool = analysis.matches.pool
    word = pool.words.index("all_to_all") if "all_to_all" in pool.words else -1
    chosen = (pool.word == word) & pool.has_bytes & np.isin(analysis.step_of, analysis.usable)
    if not chosen.any() or len(analysis.ranks) < 2:
        return
    for group in np.unique(pool.group[chosen]).tolist():
        mine = chosen & (pool.group == group)
        lanes = np.unique(pool.lane[mine])
        if len(lanes) < len(pool.groups[group].ranks) or len(lanes) < 2:
            continue
        moved = np.zeros((len(analysis.ranks), len(analysis.columns) + 1))
        np.add.at(moved, (pool.lane[mine], analysis.step_of[mine]), pool.bytes[mine])
        yield from _uneven_bytes(analysis, lanes.tolist(), moved[lanes][:, analysis.usable], mine)


def _uneven_bytes(
    analysis: Analysis, lanes: list[int], moved: Floats, chosen: npt.NDArray[np.bool_]
) -> Iterator[Finding]:
    mean = moved.mean(axis=0)
    most = int(np.median(moved, axis=1).argmax())
    ratio = float(np.median(moved[most] / np.maximum(mean, 1.0)))
    places = [i for i, place in enumerate(analysis.places) if place.lane in lanes]
    exposed = float(np.median(typical(analysis.worth_hiding_of(chosen)[places])))
    longer = min(_waited(analysis, lanes, chosen), _computes_longer(analysis, lanes, lanes[most]))
    cost = exposed * (1 - 1 / max(ratio, 1.0)) + longer
    leads = moved[most] / np.maximum(mean, 1.0) - BYTES
    persists = persistence(leads * analysis.step_ns, analysis.step_ns, len(lanes))
    if ratio <= BYTES or persists is Persistence.NONE or step_share(analysis, cost) <= SILENT:
        return
    rank = analysis.ranks[lanes[most]]
    finding = time_finding(
        analysis,
        message=f"All-to-alls wait for rank {rank}, which moves {ratio:.2f} times the mean: {of_the_step(analysis, cost)}.",
        cost_ns=cost,
        evidence=[
            Evidence("bytes of the rank with most over the mean", ratio, "count"),
            Evidence("its bytes a step", round(float(np.median(moved[most]))), "bytes"),
            Evidence("mean over the group a step", round(float(np.median(mean))), "bytes"),
            Evidence("exposed transfer of these all-to-alls a step", round(exposed), "ns"),
            Evidence("waiting in them while it computes longer than the mean, a step", round(longer), "ns"),
        ],
        advice="Balance the experts or tables: an auxiliary loss, a capacity factor, another placement.",
        where=f"All-to-all among ranks {spans(analysis.ranks[lane] for lane in lanes)}.",
        ranks=[rank],
    )
    yield finding if persists is Persistence.TESTED and analysis.steps else unsure(finding)


def with_more_bytes(analysis: Analysis) -> set[int]:
    """The ranks that this rule names for their all-to-alls."""
    return {rank for finding in _all_to_all(analysis) for rank in finding.ranks}


def _waited(analysis: Analysis, lanes: list[int], chosen: npt.NDArray[np.bool_]) -> float:
    """How long the lane that waits most waits in these collectives, exposed, a step."""
    waits = np.zeros((len(analysis.ranks), len(analysis.columns) + 1))
    for lane in lanes:
        for split in analysis.lanes[lane]:
            mine = chosen[split.piece_record]
            lengths = (split.piece_end - split.piece_start)[mine]
            np.add.at(waits[lane], analysis.step_of[split.piece_record[mine]], lengths)
    return float(typical(waits[lanes][:, analysis.usable]).max())


def _computes_longer(analysis: Analysis, lanes: list[int], lane: int) -> float:
    """How much longer one of these lanes computes than their mean, a step; at least 0."""
    kernel = analysis.part("kernel_ns")
    of = [place.lane for place in analysis.places]
    group = np.nanmean(kernel[np.isin(of, lanes)], axis=0)
    more = np.nanmean(kernel[np.array(of) == lane], axis=0) - group
    return max(0.0, float(np.nanmedian(more))) if more.size else 0.0


def _pipeline(analysis: Analysis) -> Iterator[Finding]:
    stages = [list(stage) for stage in zip(*analysis.pipelines, strict=True)]
    of_lane = {place.lane: i for i, place in enumerate(analysis.places)}
    if len(stages) <= 2 or not {lane for stage in stages for lane in stage} <= set(of_lane):
        return
    kernel = analysis.part("kernel_ns")
    times = np.array([_lower_median(kernel[[of_lane[lane] for lane in stage]]) for stage in stages])
    heavy = int(typical(times).argmax())
    others = np.delete(times, heavy, axis=0)
    over = float(np.nanmedian(times[heavy] / np.maximum(np.nanmedian(times, axis=0), 1.0)))
    cost = float(np.nanmedian(times[heavy] - times.mean(axis=0)))
    persists = persistence(times[heavy] - others.max(axis=0), analysis.step_ns, len(stages))
    if over <= STAGE or persists is Persistence.NONE or step_share(analysis, cost) <= SILENT:
        return
    ranks = sorted(analysis.ranks[lane] for lane in stages[heavy])
    finding = time_finding(
        analysis,
        message=(
            f"Stage {heavy} of the pipeline computes {over:.2f} times as long as the median stage: "
            f"{of_the_step(analysis, cost)}."
        ),
        cost_ns=cost,
        evidence=[
            Evidence(f"computation of stage {stage} a step", round(float(value)), "ns")
            for stage, value in enumerate(typical(times))
        ],
        advice="Move layers off this stage, or split the vocabulary over ranks; if it has no more work, check its devices.",
        where=f"Stage {heavy} of {len(stages)}: ranks {spans(ranks)}, {share(over - 1)} above the median stage.",
        ranks=ranks,
    )
    yield finding if persists is Persistence.TESTED and analysis.steps else unsure(finding)


def _lower_median(times: Floats) -> Floats:
    found: Floats = np.nanpercentile(times, 50, axis=0, method="lower")
    return found
