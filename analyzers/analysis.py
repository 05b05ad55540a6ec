"""Analysis: everything computed from a run's records, lazily, once, shared by all rules."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cached_property
from math import isnan
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rankscope.analyzers.across_ranks import attribution, traffic
from rankscope.analyzers.across_ranks.collectives import Matches, match_collectives
from rankscope.analyzers.across_ranks.pipelines import pipelines, spanning
from rankscope.analyzers.across_ranks.splits import LaneSplit, Splits, split_lane, split_records, worth_hiding_of
from rankscope.analyzers.across_ranks.step_matrix import StepMatrix, step_of
from rankscope.analyzers.across_ranks.traffic import GroupTime
from rankscope.analyzers.across_ranks.waits import Waits, charge_waits
from rankscope.analyzers.findings import EventRef
from rankscope.analyzers.intervals import Bools, Ints
from rankscope.analyzers.measured import GroupTraffic, Row
from rankscope.analyzers.one_rank.rank_record import RankRecord
from rankscope.analyzers.one_rank.row_times import STEP, Exemplars, RowTimes
from rankscope.analyzers.pulse.host_clocks import pings_of
from rankscope.analyzers.pulse.recorded import Recorded

Floats = npt.NDArray[np.float64]


def typical(values: Floats) -> Floats:
    """Per row of a matrix by (place, step) the median over the steps that are there; 0 where there is none."""
    return np.array([np.nanmedian(v) if not np.isnan(v).all() else 0.0 for v in values])


def middles(values: Floats) -> Floats:
    """Per column of a matrix by (place, step) the median over places; NaN where there is none. All columns at once."""
    result = np.full(values.shape[1], np.nan)
    known = ~np.isnan(values).all(axis=0)
    if known.any():
        result[known] = np.nanmedian(values[:, known], axis=0)
    return result


class Place(NamedTuple):
    """One row of the matrices: a device of a rank (`device` None: a CPU-only rank). `lane` is the rank's position."""

    lane: int
    rank: int
    device: int | None


@dataclass
class Analysis(Recorded):
    """A run, analysed. `only_steps`: ProfilerStep numbers the user asked for.

    Matrices have a row per place and a column per step in `columns`; NaN where a rank lacks the step or it is partial.
    Rules use `part`, `caused` and `alone`, which are cut to the usable steps.
    """

    @property
    def records(self) -> list[RankRecord]:
        """The ranks' records, by lane."""
        return [loaded.record for loaded in self.run.ranks]

    @property
    def ranks(self) -> list[int]:
        """The ranks, by lane."""
        return [loaded.rank for loaded in self.run.ranks]

    # ---- matching and splitting --------------------------------------------------------------------------------------

    @cached_property
    def matches(self) -> Matches:
        """Collectives matched across ranks, and the clocks."""
        return match_collectives(self.ranks, self.records, pings_of(self.run))

    @cached_property
    def splits(self) -> Splits:
        """Each record's arrival and wait."""
        return split_records(self.matches)

    @cached_property
    def lanes(self) -> list[list[LaneSplit]]:
        """Each rank's exposed communication, divided, one entry a device."""
        return [split_lane(self.matches, self.splits, record, lane) for lane, record in enumerate(self.records)]

    @cached_property
    def places(self) -> list[Place]:
        """The rows of the matrices."""
        return [Place(lane, self.ranks[lane], split.device) for lane, parts in enumerate(self.lanes) for split in parts]

    # ---- steps -------------------------------------------------------------------------------------------------------

    @cached_property
    def columns(self) -> tuple[int | None, ...]:
        """Step numbers seen on any rank, ascending; a single None where no rank has marks."""
        found = {int(n) for r in self.records for n in r[RowTimes].step[r[RowTimes].label == STEP]}
        if self.only_steps is not None and found:
            found &= set(self.only_steps)
            return tuple(sorted(found))
        return tuple(sorted(found)) if found else (None,)

    @cached_property
    def partial(self) -> list[Bools]:
        """Which rows of each rank's RowTimes are partial."""
        return attribution.partial_rows(self.records)

    @cached_property
    def usable(self) -> list[int]:
        """Positions in `columns` that rules use: whole on at least one rank, and not the first when two others remain."""
        windows = self._matrix.of("window_ns")
        whole = np.flatnonzero(~np.isnan(windows).all(axis=0)).tolist()
        if len(whole) > 2 and whole[0] == 0 and self.only_steps is None:
            whole = whole[1:]
        return whole

    @property
    def steps(self) -> list[int]:
        """Numbers of the usable steps; empty where the host set no marks."""
        return [step for step in (self.columns[c] for c in self.usable) if step is not None]

    def whole_steps(self) -> dict[int, float]:
        """Every numbered step that is whole somewhere, usable or not, with its window: the median over places."""
        windows = middles(self._matrix.of("window_ns"))
        return {n: ns for n, ns in zip(self.columns, windows.tolist(), strict=True) if n is not None and not isnan(ns)}

    @cached_property
    def step_ns(self) -> float:
        """Wall time of a step: the median over usable steps of the median over places."""
        windows = middles(self.part("window_ns"))
        known = windows[~np.isnan(windows)]
        return float(np.median(known)) if known.size else 0.0

    # ---- matrices ----------------------------------------------------------------------------------------------------

    @cached_property
    def _matrix(self) -> StepMatrix:
        return StepMatrix(self.records, self.lanes, self.partial, self.columns)

    def part(self, name: str) -> Floats:
        """A part or count by (place, usable step). `name`: a column of RowTimes, or window_ns, wait_ns, transfer_ns,
        unsplit_ns, worth_hiding_ns (exposed transfer and unsplit time that is not host-late).
        """
        return self._matrix.of(name)[:, self.usable]

    def cost_ns(self, name: str) -> float:
        """What a part costs a step: per place the median over usable steps, then the median over places."""
        return float(np.median(self.by_place(name))) if self.places else 0.0

    def by_place(self, name: str) -> Floats:
        """Per place the median over usable steps; 0 where a place has none."""
        return typical(self.part(name))

    def worth_hiding_of(self, chosen: Bools) -> Floats:
        """What better overlap of some collectives alone returns, by (place, usable step). `chosen`: which pool records."""
        values = [
            worth_hiding_of(self.matches, self.splits, self.records[lane], lane, split, chosen)
            for lane, parts in enumerate(self.lanes)
            for split in parts
        ]
        return self._matrix.placed(values)[:, self.usable]

    # ---- who made whom wait ------------------------------------------------------------------------------------------

    @cached_property
    def waits(self) -> Waits:
        """Waits charged to ranks, by step."""
        return self._charged(set())

    @cached_property
    def faults(self) -> Waits:
        """The same without the collectives that join several stages of a pipeline: there the schedule makes wait."""
        joined = spanning(self.matches, self.pipelines)
        return self._charged(joined) if joined else self.waits

    def _charged(self, without: Collection[int]) -> Waits:
        steps, sets = len(self.columns), self.candidate_sets
        return charge_waits(self.matches, self.splits, self.lanes, self.step_of, steps, sets, without)

    @cached_property
    def pipelines(self) -> list[list[int]]:
        """Lanes of each pipeline, first stage to last; empty where there is none."""
        return pipelines(self.matches)

    @property
    def caused(self) -> Floats:
        """Exposed waiting of others charged to each lane in each usable step, rank-time; without what a schedule makes
        wait.
        """
        return self.faults.caused[:, self.usable].astype(np.float64)

    @property
    def alone(self) -> Floats:
        """Wall time that each lane alone cost in each usable step."""
        return self.faults.alone[:, self.usable].astype(np.float64)

    @cached_property
    def candidate_sets(self) -> list[frozenset[int]]:
        """Lanes that may be late together: those of one host, and those of one process group, when fewer than half of
        all.
        """
        found: dict[frozenset[int], None] = {}
        hosts: dict[str, set[int]] = {}
        for lane, record in enumerate(self.records):
            if record.meta.host:
                hosts.setdefault(record.meta.host, set()).add(lane)
        lane_of = {rank: lane for lane, rank in enumerate(self.ranks)}
        groups = [{lane_of[r] for r in g.ranks if r in lane_of} for g in self.matches.pool.groups if g.known]
        for members in [*hosts.values(), *groups]:
            if 2 <= len(members) <= len(self.ranks) // 2:
                found[frozenset(members)] = None
        return list(found)

    @cached_property
    def step_of(self) -> Ints:
        """Column of the step in which each pool record arrives on its own rank; the last column: in none."""
        return step_of(self.matches.pool, self.records, self.lanes, self.columns)

    # ---- rows, traffic, evidence -------------------------------------------------------------------------------------

    @cached_property
    def rows(self) -> list[Row]:
        """Every row of the report."""
        result = []
        for lane, loaded in enumerate(self.run.ranks):
            result += attribution.rank_rows(loaded.rank, loaded.record[RowTimes], self.lanes[lane], self.partial[lane])
        if self.only_steps is None:
            return result
        return [row for row in result if not isinstance(row.step, int) or row.step in self.only_steps]

    @cached_property
    def traffic(self) -> list[GroupTraffic]:
        """Bandwidth by group, collective and size."""
        return traffic.traffic(self.matches, self.splits)

    @cached_property
    def group_times(self) -> list[GroupTime]:
        """Transfer time of each group, collective and size, by usable step."""
        found = traffic.transfer_by_step(self.matches, self.splits, self.step_of, len(self.columns))
        return [replace(g, transfer_ns=g.transfer_ns[self.usable]) for g in found]

    def exemplars(self, trouble: str, limit: int = 3) -> list[EventRef]:
        """The costliest events of one kind of trouble (see Exemplars) over all ranks."""
        found = []
        for loaded in self.run.ranks:
            table, names = loaded.record[Exemplars], loaded.record.names
            for i in range(len(table)):
                if names[int(table.trouble_id[i])] == trouble:
                    name = names[int(table.name_id[i])]
                    found.append(EventRef(loaded.rank, name, int(table.start_ns[i]), int(table.dur_ns[i])))
        return sorted(found, key=lambda e: -e.dur_ns)[:limit]
