"""Random small runs: the report against an independent evaluation of every elementary segment, to the nanosecond."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from evaluator.made import device_rank, host_rank
from evaluator.made_runs import runs
from evaluator.report import broken_sums, evaluated, row_differences
from hypothesis import HealthCheck, given, settings
from runs import analysed, written

often = settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)
less = settings(often, max_examples=200)


def differences(texts: list[str], *, matched: bool) -> list[str]:
    """What is wrong with the rows of a run, in words."""
    with tempfile.TemporaryDirectory() as folder:
        paths = written(Path(folder), texts)
        rows = analysed(paths).rows
        mine, _ = evaluated(paths, matched=matched)
    wrong = [s for rank, of_rank in mine.items() for s in row_differences(rank, of_rank, rows)]
    return wrong + list(broken_sums(rows))


@given(device_rank())
@often
def test_rows_of_a_device_are_those_of_the_page(file: str) -> None:
    assert differences([file], matched=False) == []


@given(host_rank())
@less
def test_rows_of_a_rank_without_devices_are_those_of_the_page(file: str) -> None:
    assert differences([file], matched=False) == []


def charged(texts: list[str], *, off_by: float) -> None:
    """Rows, waits and charges of a run on one clock; a charge may be off by so many nanoseconds, their sum by none."""
    with tempfile.TemporaryDirectory() as folder:
        paths = written(Path(folder), texts)
        analysis = analysed(paths)
        mine, charges = evaluated(paths, matched=True)
        rows, waits, ranks = analysis.rows, analysis.waits, analysis.ranks
    assert [s for rank, of_rank in mine.items() for s in row_differences(rank, of_rank, rows)] == []
    assert list(broken_sums(rows)) == []
    assert waits.waited.sum(axis=1).tolist() == [charges.waited[rank] for rank in ranks]
    assert waits.last_arrivals.tolist() == [charges.last[rank] for rank in ranks]
    assert waits.caused.sum(axis=0).tolist() == waits.waited.sum(axis=0).tolist()
    assert waits.caused.min() >= 0
    assert waits.caused.sum(axis=1) == pytest.approx([float(charges.caused[rank]) for rank in ranks], abs=off_by)


@given(runs(streams=1, noise=0))
@less
def test_waits_are_charged_as_the_page_says(files: list[str]) -> None:
    charged(files, off_by=12)


@given(runs(streams=2, noise=5))
@less
def test_overlapping_collectives_are_split_as_the_page_says(files: list[str]) -> None:
    assert differences(files, matched=True) == []
