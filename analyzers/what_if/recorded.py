"""A recorded run as a job to replay: each rank's own progress, broken where it starts and where it needs collectives.

Progress is time without exposed communication. A collective is started at its arrival and needed where compute stood
still when it ended; one that ended behind compute is needed at the end of its step, where it would begin to hold the step
up. Senders do not wait. Work of one's own is divided into kinds as the step's row is (docs/accounting.md, section 3);
where in the step each kind lies is not kept, so that a kind is spread evenly over it.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from rankscope.analyzers.analysis import Analysis, Place
from rankscope.analyzers.findings import CannotTell
from rankscope.analyzers.intervals import Ints, Spans, intersect, union
from rankscope.analyzers.one_rank.row_times import STEP, Exposed, RowTimes
from rankscope.analyzers.what_if.job import Act, Job, Worker

KINDS: Final = {
    "compute": ("kernel_ns", "device_copy_ns"),
    "data_loading": ("data_loading_ns",),
    "checkpoint": ("checkpoint_ns",),
    "copies": ("host_to_device_ns", "device_to_host_ns"),
    "host": ("launch_ns", "sync_ns", "allocator_ns", "gc_ns", "other_ns"),
    "idle": ("kernel_gap_ns", "unexplained_ns"),
}
ALONE: Final = "communication, not split"


@dataclass
class Columns:
    """Operations as they are put together."""

    kinds: dict[str, int] = field(default_factory=lambda: {kind: i for i, kind in enumerate(KINDS)})
    kind: list[int] = field(default_factory=list)
    worker: list[int] = field(default_factory=list)
    ns: list[int] = field(default_factory=list)
    alike: list[tuple[object, ...]] = field(default_factory=list)  # what it is compared with
    meeting: list[int] = field(default_factory=list)

    def add(self, kind: str, worker: int, ns: int, alike: tuple[object, ...], meeting: int = -1) -> int:
        """One more operation; its number."""
        self.kind.append(self.kinds.setdefault(kind, len(self.kinds)))
        self.worker.append(worker)
        self.ns.append(ns)
        self.alike.append(alike)
        self.meeting.append(meeting)
        return len(self.ns) - 1


def job_of(analysis: Analysis) -> Job:
    """The run's usable steps as one part. CannotTell where no step, or no rank, has what a replay needs."""
    places = _places(analysis)
    if not analysis.steps or not places:
        raise CannotTell("a replay needs whole numbered steps on every rank")
    columns, programs, begins, ends = Columns(), [], [], []
    meeting_of = {int(r): number for number, match in enumerate(analysis.matches.found) for r in match.records}
    for worker, place in enumerate(places):
        own = _Rank(analysis, place, worker, meeting_of)
        programs.append(own.program(columns))
        clocks = analysis.matches.clocks
        at = clocks.common(np.array([place.lane] * 2), np.array([own.begin, own.end]))
        begins.append(int(at[0]))
        ends.append(int(at[1]))
    one_clock = len({analysis.matches.clocks.component(place.lane) for place in places}) == 1
    first = min(begins)
    measured = max(ends) - first if one_clock else max(e - b for b, e in zip(begins, ends, strict=True))
    members: dict[int, list[int]] = defaultdict(list)
    for operation, number in enumerate(columns.meeting):
        if number >= 0:
            members[number].append(operation)
    compact = {number: i for i, number in enumerate(members)}
    ns, of = np.array(columns.ns, np.int64), np.array(columns.worker, np.int64)
    ideal, typical = _balanced(columns, ns, of, len(places))
    return Job(
        workers=[Worker(f"rank {place.rank}", place.rank) for place in places],
        kinds=list(columns.kinds),
        kind=np.array(columns.kind, np.int64),
        worker=of,
        ns=ns,
        ideal=ideal,
        typical=typical,
        meeting=np.array([compact.get(number, -1) for number in columns.meeting], np.int64),
        members=list(members.values()),
        programs={0: programs},
        measured_ns={0: measured},
        begins=[b - first for b in begins] if one_clock else [0] * len(places),
        steps_a_part=len(analysis.steps),
    )


def _places(analysis: Analysis) -> list[Place]:
    """The first place of each rank that has all usable steps."""
    windows = analysis.part("window_ns")
    found: dict[int, Place] = {}
    for row, place in enumerate(analysis.places):
        if not np.isnan(windows[row]).any():
            found.setdefault(place.lane, place)
    return list(found.values())


class _Rank:
    """One rank's usable steps, in own time."""

    def __init__(self, analysis: Analysis, place: Place, worker: int, meeting_of: dict[int, int]) -> None:
        self.worker, self.meeting_of = worker, meeting_of
        self.pool, self.splits, self.found = analysis.matches.pool, analysis.splits, analysis.matches.found
        record = analysis.records[place.lane]
        table, base = record[RowTimes], record.meta.base_ns
        split = next(s for s in analysis.lanes[place.lane] if s.device == place.device)
        wanted = set(analysis.steps)
        rows = [int(r) for r in split.rows if table.label[r] == STEP and int(table.step[r]) in wanted]
        self.bounds = np.append(table.begin_ns[rows], table.end_ns[rows[-1]]) + base
        self.begin, self.end = int(self.bounds[0]), int(self.bounds[-1])
        self.steps = [int(table.step[r]) for r in rows]
        self.parts = {kind: np.sum([table.ints(name)[rows] for name in names], axis=0) for kind, names in KINDS.items()}
        here = record[Exposed].device == (place.device if place.device is not None else record[Exposed].device)
        shown = record[Exposed]
        exposed = union(Spans(shown.start_ns[here] + base, shown.end_ns[here] + base))
        mine = np.flatnonzero(
            (self.pool.lane == place.lane) & (self.pool.start >= self.begin) & (self.pool.start < self.end)
        )
        self.records = [int(r) for r in mine[np.argsort(self.pool.start[mine], kind="stable")] if self._meets(int(r))]
        held = np.array([r for r in self.records if not self._sends(r)], np.int64)
        inside = Spans(np.array([self.begin]), np.array([self.end]))
        met = union(Spans(self.pool.start[held], self.pool.end[held])) if len(held) else Spans(held, held)
        self.blocked = intersect(intersect(exposed, met), inside)

    def _meets(self, record: int) -> bool:
        return record in self.meeting_of and bool(self.splits.split[record])

    def _sends(self, record: int) -> bool:
        match = self.found[self.meeting_of[record]]
        return match.kind == "point_to_point" and int(match.records[0]) == record

    def _progress(self, times: Ints) -> Ints:
        """Time without blocked time since the begin."""
        before = np.concatenate(([0], np.cumsum(self.blocked.end - self.blocked.start)))
        at = np.searchsorted(self.blocked.start, times, "right")
        spent = before[at]
        partly = at > 0
        last = np.maximum(at - 1, 0)
        if self.blocked.size:
            spent = spent - np.where(partly, np.maximum(self.blocked.end[last] - times, 0), 0)
        return np.asarray(times - self.begin - spent, np.int64)

    def program(self, columns: Columns) -> list[tuple[Act, int]]:
        """Own work between the points at which collectives are started and needed."""
        events: list[tuple[int, int, Act, int]] = []
        for record in self.records:
            match = self.found[self.meeting_of[record]]
            dur = int(self.pool.end[record] - self.pool.start[record])
            transfer = max(dur - int(self.splits.wait[record]), 0)
            alike = (match.word, match.group, int(self.pool.size[record]))
            operation = columns.add(match.word, self.worker, transfer, alike, self.meeting_of[record])
            at = int(self._progress(self.pool.start[[record]])[0])
            events.append((at, 0, Act.START, operation))
            if not self._sends(record):
                events.append((self._needed(record), 1, Act.NEED, operation))
        edges = self._progress(self.bounds)
        totals = np.diff(edges)
        acts: list[tuple[Act, int]] = []
        position, step = 0, 0
        for at, _, act, operation in [*sorted(events), (int(edges[-1]), 2, Act.OWN, -1)]:
            while position < at:
                until = min(at, int(edges[step + 1]))
                acts += self._own(columns, step, until - position, int(totals[step]))
                position = until
                step += position >= edges[step + 1] and step + 2 < len(edges)
            if operation >= 0:
                acts.append((act, operation))
        return acts

    def _needed(self, record: int) -> int:
        """The progress at which the record has to be over."""
        end = min(int(self.pool.end[record]), self.end)
        at = int(np.searchsorted(self.blocked.start, end, "left")) - 1
        if at >= 0 and end <= int(self.blocked.end[at]):
            return int(self._progress(self.blocked.start[[at]])[0])
        step = int(np.searchsorted(self.bounds, end, "left"))
        return int(self._progress(self.bounds[[min(step, len(self.bounds) - 1)]])[0])

    def _own(self, columns: Columns, step: int, ns: int, total: int) -> list[tuple[Act, int]]:
        """A piece of own work, divided into kinds as the step is; what rounding leaves goes to the largest."""
        parts = {kind: int(values[step]) for kind, values in self.parts.items()}
        parts[ALONE] = max(total - sum(parts.values()), 0)
        whole = sum(parts.values())
        if not whole:
            return []
        shares = {kind: ns * part // whole for kind, part in parts.items()}
        shares[max(parts, key=lambda kind: parts[kind])] += ns - sum(shares.values())
        label = self.steps[step]
        return [
            (Act.OWN, columns.add(kind, self.worker, part, (kind, label))) for kind, part in shares.items() if part > 0
        ]


def _balanced(columns: Columns, ns: Ints, worker: Ints, workers: int) -> tuple[Ints, Ints]:
    """Own work scaled so that every rank has the mean of its kind in each step, and the median; transfers as their like."""
    ideal, typical = ns.copy(), ns.copy()
    by_class: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for operation, alike in enumerate(columns.alike):
        by_class[alike].append(operation)
    for members in by_class.values():
        rows = np.array(members)
        if columns.meeting[members[0]] >= 0:
            ideal[rows] = typical[rows] = round(float(np.median(ns[rows])))
            continue
        totals = np.bincount(worker[rows], ns[rows], workers)
        for result, middle in ((ideal, totals.mean()), (typical, np.median(totals))):
            result[rows] = np.rint(ns[rows] * (middle / np.maximum(totals, 1))[worker[rows]])
    return ideal, typical
