"""Runs of other shapes, seeds and sizes than the rest of the tests use, and damage that must not move a figure."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import rankscope
from rankscope.analyzers.findings import Diagnosis
from rankscope.simulator import Fault, Scenario, faults, simulate

MS = 1_000_000


def diagnosed(scenario: Scenario, folder: Path) -> Diagnosis:
    simulate(scenario).write(folder)
    return rankscope.diagnose(folder, cache=False, jobs=1)


@pytest.mark.parametrize(
    "shape",
    [
        {"ranks": 1},
        {"ranks": 2, "sharding": "fsdp"},
        {"ranks": 3},
        {"ranks": 3, "sharding": "fsdp", "steps": 9},
        {"ranks": 16, "sharding": "hsdp", "ranks_per_host": 4, "clock_offsets_ns": (0, 3_600_000 * MS, -7, 5 * MS)},
        {"ranks": 16, "ranks_per_host": 8, "steps": 8},
    ],
    ids=str,
)
def test_a_healthy_run_of_another_shape_accuses_nobody(shape: dict[str, Any], tmp_path: Path) -> None:
    found = diagnosed(Scenario(**{"layers": 4, "steps": 10, "seed": 11, **shape}), tmp_path).findings
    assert [(f.rule, f.message) for f in found if f.ranks or f.kind == "time"] == []


@pytest.mark.parametrize("seed", [21, 22])
@pytest.mark.parametrize("ranks", [2, 5, 12])
@pytest.mark.parametrize(
    "fault", [faults.slow_compute(1, 4 * MS), faults.host_pause(1, 4 * MS)], ids=lambda f: f.kind.value
)
def test_a_fault_of_a_quarter_step_is_named_whatever_the_seed_and_size(
    fault: Fault, ranks: int, seed: int, tmp_path: Path
) -> None:
    found = diagnosed(Scenario(ranks=ranks, layers=5, steps=10, seed=seed, faults=(fault,)), tmp_path).findings
    assert [(f.ranks, f.cause) for f in found if f.rule == "straggler-rank"] == [([1], fault.cause)]


def test_seven_absurd_rows_in_55_000_move_no_share_by_a_point(tmp_path: Path) -> None:
    scenario = Scenario(ranks=1, steps=60, layers=48)
    (path,) = simulate(scenario).write(tmp_path / "clean")
    tree = json.loads(path.read_text())
    events = tree["traceEvents"]
    assert len(events) > 55_000
    rows = [event for event in events if event.get("cat") in ("kernel", "gpu_memcpy")]
    for number, at in enumerate(range(500, len(rows) - 500, len(rows) // 7)[:7]):
        rows[at]["dur"] = [4e6, 1e9, 3e12, -1e6, 9e15, 5e7, 2e8][number]
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd/rank-0.json").write_text(json.dumps(tree))
    clean, odd = (shares(rankscope.diagnose(tmp_path / name, cache=False, jobs=1)) for name in ("clean", "odd"))
    assert odd == pytest.approx(clean, abs=0.01)


def shares(diagnosis: Diagnosis) -> dict[str, float]:
    (whole,) = (row for row in diagnosis.attribution if row.step is None)
    parents = ("compute_ns", "communication_ns", "io_ns", "host_ns", "idle_ns")
    return {name: getattr(whole, name) / whole.window_ns for name in parents}
