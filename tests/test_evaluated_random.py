"""Random small runs: the report against an independent evaluation of every elementary segment, to the nanosecond."""

from __future__ import annotations

import tempfile
from pathlib import Path

from evaluator.made import device_rank, host_rank
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
