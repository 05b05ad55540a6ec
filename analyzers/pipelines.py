"""Pipelines as sends and receives show them, and who came late because another stage was late."""

from __future__ import annotations

import numpy as np

from rankscope.analyzers.analysis import Analysis, Floats, typical
from rankscope.analyzers.causes import COVERS
from rankscope.analyzers.intervals import Bools


def pipelines(analysis: Analysis) -> list[list[int]]:
    """Lanes of each pipeline, first stage to last; empty where sends and receives show no pipelines of one length.

    Ranks that send to each other form a pipeline if each has at most two neighbours and two have one (a ring may be a
    ring attention as well); ascending ranks are ascending stages.
    """
    pool = analysis.matches.pool
    talking = np.flatnonzero(
        np.isin(pool.word, [i for i, w in enumerate(pool.words) if w in ("send", "receive")]) & pool.has_peer
    )
    lane_of = {rank: lane for lane, rank in enumerate(analysis.ranks)}
    pairs = {(int(pool.lane[i]), lane_of[int(pool.peer[i])]) for i in talking if int(pool.peer[i]) in lane_of}
    neighbours: dict[int, set[int]] = {}
    for a, b in pairs:
        neighbours.setdefault(a, set()).add(b)
        neighbours.setdefault(b, set()).add(a)
    chains: list[list[int]] = []
    left = set(neighbours)
    while left:
        chain, reached = set[int](), {min(left)}
        while reached:
            chain |= reached
            reached = {b for a in reached for b in neighbours[a]} - chain
        left -= chain
        chains.append(sorted(chain))
    placed = {place.lane for place in analysis.places}
    ends = sum(len(some) == 1 for some in neighbours.values())
    open_lines = ends == 2 * len(chains) and all(len(some) <= 2 for some in neighbours.values())
    one_length = len({len(chain) for chain in chains}) == 1
    return chains if one_length and open_lines and set(neighbours) <= placed else []


def waited_for_stages(analysis: Analysis) -> Floats:
    """Exposed waiting for other stages' sends, by (lane, usable step), in nanoseconds."""
    waited = np.zeros((len(analysis.ranks), len(analysis.columns) + 1))
    for lane, parts in enumerate(analysis.lanes):
        for part in parts:
            mine = analysis.splits.dependency[part.piece_record]
            step = analysis.step_of[part.piece_record[mine]]
            np.add.at(waited[lane], step, (part.piece_end - part.piece_start)[mine])
    return waited[:, analysis.usable]


def late_for_a_stage(analysis: Analysis) -> Bools:
    """Per lane: it waited for other stages longer than the same stage of the other pipelines does, and by enough to
    explain how late it comes.
    """
    late = np.zeros(len(analysis.ranks), np.bool_)
    lines = pipelines(analysis)
    if len(lines) < 2:
        return late
    waited, delay = waited_for_stages(analysis), typical(analysis.alone)
    for stage in zip(*lines, strict=True):
        for lane in stage:
            peers = [other for other in stage if other != lane]
            more = float(np.median(waited[lane] - np.median(waited[peers], axis=0)))
            late[lane] = delay[lane] > 0 and more >= COVERS * delay[lane]
    return late
