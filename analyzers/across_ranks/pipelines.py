"""Pipelines, as sends and receives between ranks show them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from rankscope.analyzers.across_ranks.collectives import Matches


def pipelines(matches: Matches) -> list[list[int]]:
    """Lanes of each pipeline, first stage to last; empty where sends and receives show no pipelines of one length.

    Ranks that send to each other form a pipeline if each has at most two neighbours and two have one (a ring may be a
    ring attention as well); ascending ranks are ascending stages. One pair alone need not be a pipeline.
    """
    pool = matches.pool
    talking = np.flatnonzero(
        np.isin(pool.word, [i for i, w in enumerate(pool.words) if w in ("send", "receive")]) & pool.has_peer
    )
    lane_of = {rank: lane for lane, rank in enumerate(pool.ranks)}
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
    ends = sum(len(some) == 1 for some in neighbours.values())
    open_lines = ends == 2 * len(chains) and all(len(some) <= 2 for some in neighbours.values())
    one_length = len({len(chain) for chain in chains}) == 1
    return chains if one_length and open_lines and len(neighbours) > 2 else []


def spanning(matches: Matches, lines: Sequence[Collection[int]]) -> set[int]:
    """Groups whose collectives bring several stages of one pipeline together: there they wait for the schedule."""
    lanes: dict[int, set[int]] = {}
    for match in matches.found:
        if match.kind != "point_to_point":
            lanes.setdefault(match.group, set()).update(matches.pool.lane[match.records].tolist())
    return {group for group, there in lanes.items() if any(len(there.intersection(line)) > 1 for line in lines)}
