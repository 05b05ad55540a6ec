"""Parts of rows as matrices: a row per place (device of a rank), a column per step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from rankscope.analyzers.across_ranks.pool import Pool
from rankscope.analyzers.across_ranks.splits import LaneSplit
from rankscope.analyzers.intervals import Bools, Ints
from rankscope.analyzers.one_rank.rank_record import RankRecord
from rankscope.analyzers.one_rank.row_times import STEP, WHOLE, RowTimes

Floats = npt.NDArray[np.float64]


@dataclass
class StepMatrix:
    """Matrices over the steps in `columns` (numbers, or a single None without marks), by the ranks' records and splits."""

    records: Sequence[RankRecord]
    lanes: Sequence[Sequence[LaneSplit]]
    partial: Sequence[Bools]
    columns: Sequence[int | None]

    def of(self, name: str) -> Floats:
        """One part or count; NaN where a place lacks the step or it is partial. Names: see `Analysis.part`."""
        return self.placed(
            [self._values(name, lane, split) for lane, parts in enumerate(self.lanes) for split in parts]
        )

    def placed(self, values: Sequence[Ints]) -> Floats:
        """One array a place, with a value for each of its rows; NaN as in `of`."""
        result = np.full((len(values), len(self.columns)), np.nan)
        if values:
            place, column, flat = self._cells
            result[place, column] = np.concatenate(values)[flat]
        return result

    @cached_property
    def _cells(self) -> Ints:
        """Place, column, and position in the places' rows put end to end, of every cell that has a whole step."""
        cells = [np.empty((3, 0), np.int64)]
        place = flat = 0
        for record, parts, partial in zip(self.records, self.lanes, self.partial, strict=True):
            for split in parts:
                column = columns_of(record[RowTimes], split.rows, self.columns)
                there = np.flatnonzero((column < len(self.columns)) & ~partial[split.rows])
                cells.append(np.stack((np.full(len(there), place), column[there], flat + there)))
                place += 1
                flat += len(split.rows)
        return np.concatenate(cells, axis=1)

    def _values(self, name: str, lane: int, split: LaneSplit) -> Ints:
        match name:
            case "wait_ns":
                return split.wait
            case "transfer_ns":
                return split.transfer
            case "unsplit_ns":
                return split.unsplit
            case "worth_hiding_ns":
                return split.worth_hiding
        table = self.records[lane][RowTimes]
        values: Ints = table.end_ns - table.begin_ns if name == "window_ns" else table.ints(name)
        return values[split.rows]


def columns_of(table: RowTimes, rows: Ints, columns: Sequence[int | None]) -> Ints:
    """Column of each row; len(columns) for rows that are no step: before, after, and steps nobody asked for."""
    at = {step: i for i, step in enumerate(columns)}
    keys = [int(table.step[row]) if table.label[row] == STEP else None for row in rows]
    kinds = table.label[rows]
    return np.array(
        [at.get(key, len(at)) if kind in (STEP, WHOLE) else len(at) for key, kind in zip(keys, kinds, strict=True)],
        np.int64,
    )


def step_of(
    pool: Pool, records: Sequence[RankRecord], lanes: Sequence[Sequence[LaneSplit]], columns: Sequence[int | None]
) -> Ints:
    """Column of the step in which each pool record arrives on its own rank; len(columns): in none."""
    result = np.full(len(pool), len(columns), np.int64)
    for lane, (record, parts) in enumerate(zip(records, lanes, strict=True)):
        rows = np.flatnonzero(pool.lane == lane)
        times = pool.start[rows] - record.meta.base_ns
        for split in parts[:1]:
            column = columns_of(record[RowTimes], split.rows, columns)
            at = np.searchsorted(record[RowTimes].begin_ns[split.rows], times, "right") - 1
            result[rows] = np.where(at >= 0, column[np.maximum(at, 0)], len(columns))
    return result
