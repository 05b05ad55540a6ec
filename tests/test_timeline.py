"""A row's parts as intervals: disjoint, within the windows, and their sums the report's, in every case of the contract."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from contract import device_cases, run_cases
from contract.layout import text
from contract.writer import Case
from runs import written

import rankscope
from rankscope.analyzers.intervals import within
from rankscope.analyzers.results.timeline import timelines

CASES: list[Callable[[], Case]] = [
    case
    for module in (device_cases, run_cases)
    for case in vars(module).values()
    if inspect.isfunction(case) and case.__module__ == module.__name__
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_parts_are_the_reports_to_the_nanosecond(case: Callable[[], Case], tmp_path: Path) -> None:
    run = rankscope.load(*written(tmp_path, map(text, case()[0])), cache=False, jobs=1)
    rows = run.attribution()
    compared = 0
    for lane, (rank, trace) in enumerate(run.traces()):
        for row in timelines(run.analysis, lane, trace, run.options):
            device = rows["device"].isna() if row.device is None else rows["device"] == row.device
            mine = rows[(rows["rank"] == rank) & device.fillna(False)]
            windows = mine[mine["window"] != "run"] if row.labels != (None,) else mine
            for name, spans in row.parts.items():
                assert within(spans, row.bounds).tolist() == windows[name].tolist(), (rank, name)
                compared += 1
            starts = np.concatenate([spans.start for spans in row.parts.values()])
            ends = np.concatenate([spans.end for spans in row.parts.values()])
            order = np.argsort(starts)
            assert (starts[order][1:] >= ends[order][:-1]).all()
            assert (ends - starts).sum() == row.bounds[-1] - row.bounds[0]
    assert compared
