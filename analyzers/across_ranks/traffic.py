"""Bandwidth per group, collective and size (docs/accounting.md, section 5; factors as in nccl-tests' PERFORMANCE.md)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rankscope.analyzers.across_ranks.collectives import Matches
from rankscope.analyzers.across_ranks.splits import Splits
from rankscope.analyzers.intervals import Ints
from rankscope.analyzers.measured import GroupTraffic

Floats = npt.NDArray[np.float64]


def bus_factor(collective: str, ranks: int) -> float:
    """Bus bandwidth over algorithm bandwidth in a group of n: 2(n-1)/n all-reduce, (n-1)/n gather-like, 1 others."""
    if collective == "all_reduce":
        return 2 * (ranks - 1) / ranks
    return (ranks - 1) / ranks if collective in ("all_gather", "reduce_scatter", "all_to_all") else 1.0


def traffic(matches: Matches, splits: Splits) -> list[GroupTraffic]:
    """Each (group, collective, bytes) of the matched collectives; bytes is S of one operation, the largest over its
    ranks.
    """
    pool = matches.pool
    kinds: dict[tuple[int, str, int | None, tuple[int, ...]], list[int]] = {}
    for index, match in enumerate(matches.found):
        rows = match.records
        size = int(pool.bytes[rows].max()) if pool.has_bytes[rows].all() else None
        ends = tuple(pool.ranks[int(lane)] for lane in pool.lane[rows]) if match.kind == "point_to_point" else ()
        kinds.setdefault((match.group, match.word, size, ends), []).append(index)
    result = []
    for (group, word, size, ends), indices in kinds.items():
        rows = np.concatenate([matches.found[i].records for i in indices])
        split = splits.split[rows]
        wait = int(splits.wait[rows][split].sum())
        transfer = int((pool.end[rows] - pool.start[rows])[split].sum()) - wait
        ranks = list(ends) if ends else list(pool.groups[group].ranks)
        moved = None if size is None else size * int(split.sum())
        rate = bus_factor(word, len(ranks)) * moved / (transfer / 1e9) if moved is not None and transfer > 0 else None
        result.append(
            GroupTraffic(
                group=f"rank {ends[0]} to {ends[1]}" if ends else pool.groups[group].label,
                ranks=ranks,
                collective=word,
                bytes=size,
                count=len(indices),
                wait_ns=wait,
                transfer_ns=transfer,
                bus_bytes_per_s=rate,
                imbalance=_imbalance(matches, indices) if word == "all_to_all" and size is not None else None,
            )
        )
    return sorted(result, key=lambda g: (-(g.wait_ns + g.transfer_ns), g.group, g.collective, g.bytes or 0))


def _imbalance(matches: Matches, indices: list[int]) -> float:
    """All-to-all-v: bytes of the rank with most over the mean, the worst operation."""
    worst = 1.0
    for i in indices:
        sizes = matches.pool.bytes[matches.found[i].records]
        worst = max(worst, float(sizes.max() / max(sizes.mean(), 1.0)))
    return worst


@dataclass(frozen=True, slots=True)
class GroupTime:
    """Transfer time of one group's operations of one collective and size: the mean over members, by step, in
    nanoseconds.
    """

    group: int
    ranks: tuple[int, ...]
    collective: str
    bytes: int | None
    transfer_ns: Floats  # [step]
    operations: int


def transfer_by_step(matches: Matches, splits: Splits, step_of: Ints, steps: int) -> list[GroupTime]:
    """Per (group, collective, bytes) of symmetric collectives: how long the bytes took, step by step."""
    pool = matches.pool
    found: dict[tuple[int, str, int | None], tuple[Floats, list[int]]] = {}
    for match in matches.found:
        rows = match.records
        if match.kind != "symmetric" or not splits.split[rows].all():
            continue
        size = int(pool.bytes[rows].max()) if pool.has_bytes[rows].all() else None
        total, count = found.setdefault((match.group, match.word, size), (np.zeros(steps + 1), [0]))
        total[int(step_of[rows[0]])] += float((pool.end[rows] - pool.start[rows] - splits.wait[rows]).mean())
        count[0] += 1
    return [
        GroupTime(group, pool.groups[group].ranks, word, size, total[:-1], count[0])
        for (group, word, size), (total, count) in found.items()
    ]
