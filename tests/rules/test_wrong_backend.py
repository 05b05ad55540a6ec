from __future__ import annotations

from pathlib import Path

import pytest
from hand_made import MS, US, Rank, findings, ranks


def reducing(length: int, device: bool = False, name: str = "gloo:all_reduce") -> list[Rank]:
    def body(rank: Rank, _: int) -> None:
        start, end = rank.gap(4 * MS, length)
        rank.host(name, start, end, "user_annotation", tid=7)
        if device:
            rank.collective(rank.begin + 2 * MS, rank.begin + 3 * MS)

    return ranks(2, body)


def test_devices_that_wait_for_gloo_are_priced(tmp_path: Path) -> None:
    (found,) = findings(reducing(MS), "wrong-backend", tmp_path)
    assert found.cost_ns == MS and "nccl" in found.advice


@pytest.mark.parametrize(
    "run",
    [reducing(90 * US), reducing(MS, device=True), reducing(MS, name="aten::copy_")],
    ids=["below 1 % of the step", "NCCL beside it", "no gloo"],
)
def test_short_waits_and_runs_with_nccl_are_silent(run: list[Rank], tmp_path: Path) -> None:
    assert findings(run, "wrong-backend", tmp_path) == []


def test_collectives_of_gloo_are_communication(tmp_path: Path) -> None:
    assert findings(reducing(MS), "missing-communication", tmp_path) == []


def test_gloo_is_right_on_a_run_without_devices(tmp_path: Path) -> None:
    def body(rank: Rank, _: int) -> None:
        rank.host("c10d::allreduce_", rank.begin + MS, rank.begin + MS + 10 * US)
        rank.host("gloo:all_reduce", rank.begin + MS, rank.begin + 5 * MS, "user_annotation", tid=7)

    assert findings(ranks(2, body, cpu_only=True), "wrong-backend", tmp_path) == []
