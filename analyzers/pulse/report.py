"""The pulse of a run as the report shows it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Final

import numpy as np

from rankscope.analyzers.pulse.frontier import Floats
from rankscope.analyzers.pulse.hardware import Figure
from rankscope.analyzers.pulse.measured import (
    FrontierShare,
    LoggedSummary,
    PulseReport,
    SampledFigure,
    StageTime,
    StepSeries,
)
from rankscope.analyzers.pulse.pulse import Pulse
from rankscope.analyzers.pulse.tables import STAGES

SPANS: Final = 240  # of the series: as many as a heat map can show
MOST_RANKS: Final = 1024  # with a series each


def pulse_report(pulse: Pulse) -> PulseReport:
    """Stages by rank, the frontier, steps over time, and what was logged."""
    known = not pulse.doubt and len(pulse.usable) > 0
    wall = float(pulse.wall_ns[:, pulse.usable].max(axis=0).mean()) if len(pulse.usable) else None
    reached = float(pulse.frontier.step_ns.mean()) if known else None
    return PulseReport(
        ranks=pulse.ranks,
        steps=len(pulse.numbers),
        judged_steps=len(pulse.usable),
        every=pulse.recording.every,
        median_step_ns=round(pulse.step_ns) if len(pulse.usable) else None,
        stages=_stages(pulse, known),
        frontier=_frontier(pulse) if known else [],
        frontier_ns=None if reached is None else round(reached),
        rest_ns=None if reached is None or wall is None else max(0, round(wall) - round(reached)),
        doubt=pulse.doubt or None,
        series=_series(pulse, known),
        logged=logged(pulse),
    )


def _stages(pulse: Pulse, known: bool) -> list[StageTime]:
    if not len(pulse.usable):
        return []
    parts = {"stage": pulse.stage_ns, "wait": pulse.wait_ns}
    parts |= {part: pulse.by_stage(part) for part in ("queued", "device")}
    medians = {name: _medians(values[:, pulse.usable]) for name, values in parts.items()}
    local = np.median(pulse.local_ns, axis=1) if known else np.full(medians["stage"].shape, np.nan)
    result = []
    for lane, rank in enumerate(pulse.ranks):
        for place, stage in enumerate(STAGES):
            of_stage = medians["stage"][lane, place]
            if np.isnan(of_stage) or not medians["stage"][:, place].any():
                continue
            result.append(
                StageTime(
                    rank,
                    stage,
                    round(float(of_stage)),
                    _whole(medians["wait"][lane, place]),
                    _whole(medians["queued"][lane, place]),
                    _whole(local[lane, place]),
                    _whole(medians["device"][lane, place]),
                )
            )
    return result


def _medians(values: Floats) -> Floats:
    """Over steps; NaN where no step has a value."""
    known = ~np.isnan(values).all(axis=1)
    result = np.full(known.shape, np.nan)
    for lane, place in np.argwhere(known):
        result[lane, place] = np.nanmedian(values[lane, :, place])
    return result


def _whole(value: float) -> int | None:
    return None if np.isnan(value) else round(float(value))


def _frontier(pulse: Pulse) -> list[FrontierShare]:
    """Largest first; what is below a nanosecond a step is left out."""
    found = pulse.frontier
    steps = len(found.rank)
    several = len(pulse.ranks) > 1
    shares = []
    for place, stage in enumerate(STAGES):
        beyond = _beyond(pulse.local_ns[:, :, place]) if several else np.zeros((1, steps))
        ns = np.bincount(found.rank[:, place], found.increment_ns[:, place], minlength=len(pulse.ranks))
        moved = found.increment_ns[:, place] > 0
        counts = np.bincount(found.rank[moved, place], minlength=len(pulse.ranks))
        shares += [
            FrontierShare(
                rank,
                stage,
                round(ns[lane] / steps),
                round(float(beyond[lane, found.rank[:, place] == lane].sum()) / steps) if several else None,
                int(counts[lane]),
            )
            for lane, rank in enumerate(pulse.ranks)
            if ns[lane] >= steps
        ]
    return sorted(shares, key=lambda share: (-share.ns, share.rank))


def _beyond(local_ns: Floats) -> Floats:
    """Own time in one stage beyond the median of the peers', by (rank, step); 0 where it is less."""
    peers = [np.median(np.delete(local_ns, lane, axis=0), axis=0) for lane in range(len(local_ns))]
    return np.asarray(np.maximum(local_ns - np.array(peers), 0.0), np.float64)


def _series(pulse: Pulse, known: bool) -> StepSeries | None:
    if not len(pulse.numbers):
        return None
    steps_a_span = -(-len(pulse.numbers) // SPANS)
    firsts = list(range(0, len(pulse.numbers), steps_a_span))
    local: dict[str, list[int]] | None = None
    if known:
        judged = pulse.usable // steps_a_span
        local = {
            str(rank): [round(float(np.median(own[judged == at]))) if (judged == at).any() else 0 for at in range(len(firsts))]
            for rank, own in zip(pulse.ranks[:MOST_RANKS], pulse.local_ns.sum(axis=2), strict=False)
        }  # fmt: skip
    wall = {
        str(rank): [round(float(np.median(own[at : at + steps_a_span]))) for at in firsts]
        for rank, own in zip(pulse.ranks[:MOST_RANKS], pulse.wall_ns, strict=False)
    }
    return StepSeries([int(pulse.numbers[at]) for at in firsts], steps_a_span, wall, local)


def logged(pulse: Pulse) -> list[LoggedSummary]:
    """Every logged name over all ranks; values that are no numbers are counted."""
    values: dict[str, list[Floats]] = defaultdict(list)
    for process in pulse.processes:
        names = process.logged.columns["name"]
        for name in dict.fromkeys(names.tolist()):
            values[str(name)].append(process.logged.columns["value"][names == name].astype(np.float64))
    result = []
    for name, parts in values.items():
        together = np.concatenate(parts)
        finite = together[np.isfinite(together)]
        ends = [part[np.isfinite(part)] for part in parts]
        firsts, lasts = [float(end[0]) for end in ends if len(end)], [float(end[-1]) for end in ends if len(end)]
        result.append(
            LoggedSummary(
                name,
                len(together),
                float(np.mean(firsts)) if firsts else None,
                float(np.mean(lasts)) if lasts else None,
                float(finite.min()) if len(finite) else None,
                float(finite.max()) if len(finite) else None,
                len(together) - len(finite),
            )
        )
    return result


def sampled(by_rank: Mapping[int, list[Figure]]) -> list[SampledFigure]:
    """The figures of a probe that samples, by rank."""
    return [
        SampledFigure(rank, f.name, f.samples, f.median, f.least, f.most, f.last)
        for rank, found in by_rank.items()
        for f in found
    ]
