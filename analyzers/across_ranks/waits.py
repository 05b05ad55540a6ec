"""Who made whom wait: charging with inheritance (docs/accounting.md, section 5).

Charged equals waited, to the nanosecond.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from rankscope.analyzers.across_ranks.collectives import Match, Matches
from rankscope.analyzers.across_ranks.splits import LaneSplit, Splits, on_match_clock, root_position
from rankscope.analyzers.intervals import Ints

Floats = npt.NDArray[np.float64]


@dataclass
class Waits:
    """Totals by lane and by column: one a step, the last for time outside every step. Nanoseconds.

    `waited_for[w, c]`: exposed waiting of lane w charged to lane c. `together[set][step]`: the longest exposed wait in
    the gap before the first of these lanes, where those of them that belong to the group came last; for the sets asked
    about.
    """

    waited: Ints  # [lane, step]
    caused: Ints  # [lane, step]
    alone: Ints  # [lane, step]
    last_arrivals: Ints  # [lane]
    waited_for: Floats  # [waiter, causer]
    together: dict[frozenset[int], Ints] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Queue:
    """One collective's arrivals in order: lanes, times, the pieces of exposed wait (by position of the waiter) on the
    same clock.
    """

    lanes: Ints
    times: Ints
    piece_of: Ints
    piece_start: Ints
    piece_end: Ints
    rooted: bool
    group: int
    step: int

    def exposed(self, begin: Ints, end: Ints) -> Ints:
        """Exposed wait of each waiter in each [begin[k], end[k]): shape (lanes, k)."""
        low = np.maximum(self.piece_start[:, None], begin[None, :])
        lengths = np.clip(np.minimum(self.piece_end[:, None], end[None, :]) - low, 0, None)
        result = np.zeros((len(self.lanes), len(begin)), np.int64)
        np.add.at(result, self.piece_of, lengths)
        return result


class Charger:
    """Charges collectives in order of time, remembering what each lane waited for since it last met each group."""

    def __init__(self, lanes: int, steps: int, sets: Sequence[frozenset[int]]) -> None:
        shape = (lanes, steps + 1)
        self.waits = Waits(
            waited=np.zeros(shape, np.int64),
            caused=np.zeros(shape, np.int64),
            alone=np.zeros(shape, np.int64),
            last_arrivals=np.zeros(lanes, np.int64),
            waited_for=np.zeros((lanes, lanes)),
        )
        self._alone: dict[tuple[frozenset[int], int], Ints] = {}  # (lanes late together, group) -> wall time by step
        self.sets = set(sets)
        self._sets_of = [[s for s in sets if lane in s] for lane in range(lanes)]
        self._met: dict[
            tuple[int, int], tuple[int, Floats]
        ] = {}  # (lane, group) -> what it had waited, and for whom, when they met
        self._waited = np.zeros(lanes, np.int64)

    def charge(self, queue: _Queue, residual: int) -> None:
        """Charge one collective's exposed waits to those who came later."""
        n = len(queue.lanes)
        exposed = queue.exposed(queue.times[:-1], queue.times[1:])  # gap k lies between arrivals k and k + 1
        charge = exposed.sum(axis=0)
        if charge.any():
            self._charge(queue, exposed, charge)
        if not queue.rooted and queue.times[-1] - queue.times[-2] > residual:
            self.waits.last_arrivals[queue.lanes[-1]] += 1
        lanes: list[int] = queue.lanes.tolist()
        for late in self._sets_of[lanes[-1]]:
            size = sum(lane in late for lane in lanes)
            if size < n and exposed[:, n - 1 - size].any() and late.issuperset(lanes[n - size :]):
                self._add_alone(late, queue, int(exposed[:, n - 1 - size].max()))

    def meet(self, lanes: Ints, group: int) -> None:
        """These lanes have met in this group: what they waited for until now makes them late here no more."""
        for lane in lanes.tolist():
            self._met[lane, group] = (int(self._waited[lane]), self.waits.waited_for[lane].copy())

    def _charge(self, queue: _Queue, exposed: Ints, charge: Ints) -> None:
        n = len(queue.lanes)
        causers = np.arange(n - 1, 0, -1)  # of gap k: everyone from position k + 1 on
        share = np.zeros((n, n - 1), np.int64)
        for position in range(1, n):
            share[position, :position] = charge[:position] // causers[:position]
        share[n - 1] += charge % causers
        own = share.sum(axis=1)
        # Per waiter: divided among the causers of each gap. Column j of the sum over gaps k < j.
        per_gap = np.where(charge > 0, exposed / np.maximum(causers, 1), 0.0)
        charged_to = np.zeros((n, len(self._waited)))
        charged_to[:, queue.lanes[1:]] = np.cumsum(per_gap, axis=1)
        covered = np.zeros(n, np.int64)
        for late in np.flatnonzero(own > 0).tolist():
            covered[late] = self._inherit(queue, late, exposed, charge, share[late], own, charged_to)
        step = queue.step
        np.add.at(self.waits.caused[:, step], queue.lanes, own)
        waited = exposed.sum(axis=1)
        np.add.at(self.waits.waited[:, step], queue.lanes, waited)
        self._waited[queue.lanes] += waited
        self.waits.waited_for[queue.lanes] += charged_to
        if not queue.rooted:
            begin = max(int(queue.times[-2]), int(queue.times[0]) + int(covered[-1]))
            alone = queue.exposed(np.array([begin]), queue.times[-1:]).max()
            self._add_alone(frozenset({int(queue.lanes[-1])}), queue, int(alone))

    def _add_alone(self, late: frozenset[int], queue: _Queue, wall_ns: int) -> None:
        if wall_ns:
            by_step = self._alone.setdefault((late, queue.group), np.zeros(self.waits.caused.shape[1], np.int64))
            by_step[queue.step] += wall_ns

    def finish(self, members: Sequence[frozenset[int]]) -> Waits:
        """Put the groups' wall times together. `members[group]`: its lanes.

        A delay shows in every group its rank belongs to, on different waiters: it returns its time once. So the groups
        of one waiter add, and of the waiters the largest counts.
        """
        by_late: dict[frozenset[int], dict[int, Ints]] = {}
        for (late, group), by_step in self._alone.items():
            by_late.setdefault(late, {})[group] = by_step
        self.waits.together = {s: np.zeros(self.waits.caused.shape[1], np.int64) for s in self.sets}
        for late, groups in by_late.items():
            waiters = {lane for group in groups for lane in members[group]} - late
            met = {frozenset(group for group in groups if lane in members[group]) for lane in waiters}
            wall = np.max([np.sum([groups[g] for g in sorted(together)], axis=0) for together in met], axis=0)
            if len(late) == 1:
                self.waits.alone[next(iter(late))] = wall
            else:
                self.waits.together[late] = wall
        return self.waits

    def _inherit(
        self, queue: _Queue, position: int, exposed: Ints, charge: Ints, share: Ints, own: Ints, charged_to: Floats
    ) -> int:
        """Pass on the part of a late lane's charge that it came late for because it waited itself.

        Returns the nanoseconds covered.
        """
        lane = int(queue.lanes[position])
        before, for_whom = self._met.get((lane, queue.group), (0, np.zeros(len(self._waited))))
        inherited = min(int(self._waited[lane]) - before, int(queue.times[position] - queue.times[0]))
        if inherited <= 0:
            return 0
        blame = np.clip(self.waits.waited_for[lane] - for_whom, 0, None)
        if not blame.sum() > 0:
            return 0
        blame = blame / blame.sum()
        cover_end = np.clip(int(queue.times[0]) + inherited, queue.times[:-1], queue.times[1:])
        covered = queue.exposed(queue.times[:-1], cover_end).sum(axis=0)
        passed = np.where(charge > 0, share * covered // np.maximum(charge, 1), 0)
        amount = int(passed.sum())
        if amount == 0:
            return inherited
        parts = np.floor(amount * blame).astype(np.int64)
        parts[np.flatnonzero(blame)[-1]] += amount - int(parts.sum())
        own[position] -= amount
        self.waits.caused[:, queue.step] += parts
        ratio = np.where(charge > 0, passed / np.maximum(charge, 1), 0.0)
        moved = exposed @ ratio
        charged_to[:, lane] -= moved
        charged_to += moved[:, None] * blame[None, :]
        return inherited


def charge_waits(
    matches: Matches,
    splits: Splits,
    lanes: Sequence[list[LaneSplit]],
    step_of: Ints,
    steps: int,
    sets: Sequence[frozenset[int]],
    without: Collection[int] = (),
) -> Waits:
    """Charge every exposed wait of the run.

    `step_of[record]`: column of its step; `sets`: lanes that may be late together; `without`: groups left out.
    """
    pool = matches.pool
    charger = Charger(len(pool.ranks), steps, sets)
    start = np.concatenate([part.piece_start for lane in lanes for part in lane] or [np.empty(0, np.int64)])
    end = np.concatenate([part.piece_end for lane in lanes for part in lane] or [np.empty(0, np.int64)])
    of = np.concatenate([part.piece_record for lane in lanes for part in lane] or [np.empty(0, np.int64)])
    order = np.argsort(of, kind="stable")
    start, end, of = start[order], end[order], of[order]
    start, end = (on_match_clock(matches, splits, of, times) for times in (start, end))
    for match in sorted(matches.found, key=lambda m: (int(_meeting(matches, m).max()), int(m.records[0]))):
        if match.group in without:
            continue
        queue = _queue(matches, splits, match, (start, end, of), step_of)
        if queue is not None:
            residual = matches.clocks.residual_ns(pool.lane[match.records].tolist())
            charger.charge(queue, residual)
        if match.kind != "point_to_point":
            charger.meet(pool.lane[match.records], match.group)
    lanes_of: list[set[int]] = [set() for _ in pool.groups]
    for match in matches.found:
        lanes_of[match.group].update(pool.lane[match.records].tolist())
    return charger.finish([frozenset(members) for members in lanes_of])


def _meeting(matches: Matches, match: Match) -> Ints:
    return matches.clocks.common(matches.pool.lane[match.records], matches.pool.start[match.records])


def _queue(
    matches: Matches,
    splits: Splits,
    match: Match,
    pieces: tuple[Ints, Ints, Ints],
    step_of: Ints,
) -> _Queue | None:
    """The arrivals that matter: all of a symmetric collective; the root after its leaves; the leaves after their root."""
    pool, records = matches.pool, match.records
    if match.kind == "point_to_point" or not splits.split[records].all():
        return None
    if match.kind != "symmetric":
        at = root_position(match, pool.root, pool.has_root, pool.lane[records], pool.ranks)
        if at is None:
            return None
        root = records[at]
        after = splits.arrival[records] > splits.arrival[root]
        if match.kind == "root_last":
            records = np.concatenate(([root], records[after]))
        else:
            return _root_queue(matches, splits, records[~after], root, pieces, step_of)
    if len(records) < 2:
        return None
    order = records[np.lexsort((pool.lane[records], splits.arrival[records]))]
    rooted = match.kind != "symmetric"
    return _with_pieces(matches, order, splits.arrival[order], rooted, match.group, pieces, step_of)


def _root_queue(
    matches: Matches,
    splits: Splits,
    records: Ints,
    root: int,
    pieces: tuple[Ints, Ints, Ints],
    step_of: Ints,
) -> _Queue | None:
    """A broadcast's leaves wait for the root alone: one gap, from the first leaf to the root."""
    leaves = records[records != root]
    if not len(leaves):
        return None
    first = splits.arrival[leaves].min()
    order = np.concatenate((leaves, [root]))
    times = np.concatenate((np.full(len(leaves), first), [splits.arrival[root]]))
    group = int(matches.pool.group[root])
    return _with_pieces(matches, order, times, True, group, pieces, step_of)


def _with_pieces(
    matches: Matches,
    order: Ints,
    times: Ints,
    rooted: bool,
    group: int,
    pieces: tuple[Ints, Ints, Ints],
    step_of: Ints,
) -> _Queue:
    start, end, of = pieces
    low, high = np.searchsorted(of, order, "left"), np.searchsorted(of, order, "right")
    rows = (
        np.concatenate([np.arange(a, b) for a, b in zip(low, high, strict=True)])
        if (high > low).any()
        else np.empty(0, np.int64)
    )
    position = np.repeat(np.arange(len(order)), high - low)
    return _Queue(
        lanes=matches.pool.lane[order],
        times=times,
        piece_of=position,
        piece_start=start[rows],
        piece_end=end[rows],
        rooted=rooted,
        group=group,
        step=int(step_of[order[-1]]),
    )
