"""Damaged files: a report all the same, without a traceback, in bounded time and memory, and every damage named.

`RANKSCOPE_FUZZ=2000` (or `make fuzz`) tries so many instead of the few that each test run tries.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from fuzz.damage import damaged
from fuzz.whole_path import problems

COUNT = int(os.environ.get("RANKSCOPE_FUZZ") or 300)
SHARD = 25


@pytest.mark.parametrize("first", range(0, COUNT, SHARD))
def test_damaged_files_cost_no_traceback_and_are_named(first: int, tmp_path: Path) -> None:
    found = []
    for number in range(first, min(first + SHARD, COUNT)):
        folder = tmp_path / str(number)
        folder.mkdir()
        found += problems(number, folder)
    assert found == []


def test_the_same_number_is_the_same_file() -> None:
    assert all(damaged(number) == damaged(number) for number in range(60, 90))
