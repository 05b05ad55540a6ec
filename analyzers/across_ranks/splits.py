"""Each collective record's split into wait and transfer, and what of it is exposed (docs/accounting.md, sections 3 and
5).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rankscope.analyzers.across_ranks.collectives import Match, Matches
from rankscope.analyzers.intervals import (
    EMPTY,
    Bools,
    Ints,
    Spans,
    intersect,
    latest_ending,
    subtract,
    total,
    union,
    within,
)
from rankscope.analyzers.one_rank.collective_records import CollectiveRecords
from rankscope.analyzers.one_rank.rank_record import RankRecord
from rankscope.analyzers.one_rank.row_times import Exposed, RowTimes


@dataclass(frozen=True, slots=True)
class Splits:
    """Per pool record: arrival on its match's clock, length of the wait by its own, whether it is split at all.

    `arrival` is comparable only within one match; a match across clocks that are not fitted is put on its own common
    end (`clock_free`). `dependency`: a receiver's wait.
    """

    arrival: Ints
    wait: Ints
    split: Bools
    dependency: Bools
    clock_free: Bools


@dataclass(frozen=True, slots=True)
class LaneSplit:
    """Exposed communication of one row's device, divided, in nanoseconds per window; and its exposed waits as pieces.

    Pieces are own times with the base added; `piece_record` is the pool position of the wait each belongs to.
    """

    device: int | None
    rows: Ints  # positions in the rank's RowTimes
    wait: Ints
    transfer: Ints
    unsplit: Ints
    worth_hiding: Ints  # transfer and unsplit time that is not host-late: what better overlap returns
    hidden_wait_ns: int
    piece_start: Ints
    piece_end: Ints
    piece_record: Ints


def split_records(matches: Matches) -> Splits:
    """Arrivals and waits of all matched records. A wait below the clock's residual is 0."""
    pool, clocks = matches.pool, matches.clocks
    n = len(pool)
    arrival = clocks.common(pool.lane, pool.start) if n else np.empty(0, np.int64)
    dur = pool.end - pool.start
    wait, split = np.zeros(n, np.int64), np.zeros(n, np.bool_)
    dependency, clock_free = np.zeros(n, np.bool_), np.zeros(n, np.bool_)
    for match in matches.found:
        rows = match.records
        lanes = pool.lane[rows]
        one_clock = len({clocks.component(int(lane)) for lane in lanes}) == 1
        if not one_clock:
            clock_free[rows] = True
            arrival[rows] = -dur[rows]
        waiting_for = _until(match, arrival, pool.root, pool.has_root, lanes, pool.ranks)
        if waiting_for is None:
            continue
        lengths = waiting_for - arrival[rows]
        lengths = np.clip(clocks.own_length(lanes, lengths) if one_clock else lengths, 0, dur[rows])
        lengths[lengths < (clocks.residual_ns(lanes.tolist()) if one_clock else 0)] = 0
        wait[rows], split[rows] = lengths, True
        dependency[rows] = match.kind == "point_to_point"
    return Splits(arrival, wait, split, dependency, clock_free)


def _until(match: Match, arrival: Ints, root: Ints, has_root: Bools, lanes: Ints, ranks: Sequence[int]) -> Ints | None:
    """Until when each record waits; None where that cannot be known (the root's record is missing)."""
    own = arrival[match.records]
    if match.kind == "symmetric":
        return np.full(len(own), own.max())
    if match.kind == "point_to_point":
        return np.array([own[0], own[0]])
    at = root_position(match, root, has_root, lanes, ranks)
    if at is None:
        return None
    if match.kind == "root_first":
        return np.full(len(own), own[at])
    until = own.copy()
    until[at] = own.max()
    return until


def on_match_clock(matches: Matches, splits: Splits, of: Ints, times: Ints) -> Ints:
    """Own times within records `of` on the clocks of their matches."""
    since = times - matches.pool.start[of]
    common = matches.clocks.common_length(matches.pool.lane[of], since)
    return np.asarray(splits.arrival[of] + np.where(splits.clock_free[of], since, common), np.int64)


def root_position(match: Match, root: Ints, has_root: Bools, lanes: Ints, ranks: Sequence[int]) -> int | None:
    """Which of the match's records is the root's."""
    known = has_root[match.records]
    if not known.any():
        return None
    rank = int(root[match.records][known][0])
    at = [i for i, lane in enumerate(lanes) if ranks[int(lane)] == rank]
    return at[0] if at else None


def split_lane(matches: Matches, splits: Splits, record: RankRecord, lane: int) -> list[LaneSplit]:
    """Divide one rank's exposed communication, device by device: transfer beats unsplit beats wait."""
    pool, table, exposed = matches.pool, record[RowTimes], record[Exposed]
    mine = np.flatnonzero(pool.lane == lane)
    result = []
    for device in np.unique(table.device):
        rows = np.flatnonzero(table.device == device)
        bounds = np.concatenate((table.begin_ns[rows], table.end_ns[rows][-1:])) + record.meta.base_ns
        here = exposed.device == device
        parts = [
            union(Spans(exposed.start_ns[here & late], exposed.end_ns[here & late]))
            for late in (exposed.late == 0, exposed.late == 1)
        ]
        shown = [Spans(part.start + record.meta.base_ns, part.end + record.meta.base_ns) for part in parts]
        records = mine[record[CollectiveRecords].device[pool.row[mine]] == device]
        known = bool(table.valid("device").all())
        result.append(_divide(matches, splits, records, rows, bounds, shown, int(device) if known else None))
    return result


def divided(matches: Matches, splits: Splits, records: Ints, exposed: Spans) -> tuple[Spans, Spans, Spans]:
    """Exposed communication as transfer, unsplit and wait; `records`: the pool positions of this device's."""
    pool, split = matches.pool, splits.split[records]
    start, end, wait = pool.start[records], pool.end[records], splits.wait[records]
    moving = union(Spans(start[split] + wait[split], end[split]))
    blind = union(Spans(start[~split], end[~split]))
    transfer = intersect(exposed, moving)
    unsplit = subtract(intersect(exposed, blind), moving)
    return transfer, unsplit, subtract(subtract(exposed, transfer), unsplit)


def worth_hiding_of(
    matches: Matches, splits: Splits, record: RankRecord, lane: int, part: LaneSplit, chosen: Bools
) -> Ints:
    """`part.worth_hiding` of some collectives alone. `chosen`: which pool records; overlaps with others count."""
    pool, table, exposed = matches.pool, record[RowTimes], record[Exposed]
    device = int(table.device[part.rows[0]]) if len(part.rows) else 0
    mine = np.flatnonzero(chosen & (pool.lane == lane))
    mine = mine[record[CollectiveRecords].device[pool.row[mine]] == device]
    here = (exposed.device == device) & (exposed.late == 0)
    shown = union(Spans(exposed.start_ns[here] + record.meta.base_ns, exposed.end_ns[here] + record.meta.base_ns))
    bounds = np.concatenate((table.begin_ns[part.rows], table.end_ns[part.rows][-1:])) + record.meta.base_ns
    transfer, unsplit, _ = divided(matches, splits, mine, shown)
    return within(union(transfer, unsplit), bounds)


def _divide(
    matches: Matches,
    splits: Splits,
    records: Ints,
    rows: Ints,
    bounds: Ints,
    shown: Sequence[Spans],
    device: int | None,
) -> LaneSplit:
    """`shown`: exposed communication that is not host-late, and that is."""
    pool = matches.pool
    split = splits.split[records]
    start, wait = pool.start[records], splits.wait[records]
    transfer, unsplit, waiting = divided(matches, splits, records, union(*shown))
    waits = np.flatnonzero(split & (wait > 0))
    ends = latest_ending(start[waits], start[waits] + wait[waits]) if len(waits) else np.empty(0, np.int64)
    order = np.argsort(start[waits], kind="stable")
    order = order[ends[order] > start[waits][order]]
    claimed = Spans(start[waits][order], ends[order])
    pieces = intersect(claimed, waiting)
    of = np.searchsorted(claimed.start, pieces.start, "right") - 1
    owner = records[waits[order[of]]] if pieces.size else np.empty(0, np.int64)
    fault = ~splits.dependency[records[waits]]
    wanted = union(Spans(start[waits][fault], (start[waits] + wait[waits])[fault])) if fault.any() else EMPTY
    return LaneSplit(
        device=device,
        rows=rows,
        wait=within(waiting, bounds),
        transfer=within(transfer, bounds),
        unsplit=within(unsplit, bounds),
        worth_hiding=within(intersect(union(transfer, unsplit), shown[0]), bounds),
        hidden_wait_ns=total(wanted) - total(intersect(wanted, waiting)),
        piece_start=pieces.start,
        piece_end=pieces.end,
        piece_record=owner,
    )
