from __future__ import annotations

from pathlib import Path

import pytest
from hand_made import MS, STEP, US, Rank, findings, ranks, skipped


def copying(length: int, size: int = 2_000_000, kind: str = "Pageable") -> list[Rank]:
    def body(rank: Rank, _: int) -> None:
        rank.copy(f"HtoD ({kind} -> Device)", rank.begin + 20 * US, rank.begin + 20 * US + length, size)
        rank.fill(rank.begin + 21 * US + length, rank.begin + STEP)

    return ranks(1, body)


def test_a_large_pageable_copy_is_priced(tmp_path: Path) -> None:
    (found,) = findings(copying(150 * US), "pageable-copy", tmp_path)
    assert found.cost_ns == 150 * US and "2.00 MB" in found.where and "pin_memory" in found.advice


@pytest.mark.parametrize(
    "run", [copying(90 * US), copying(MS, size=1_000_000), copying(MS, kind="Pinned")], ids=["short", "small", "pinned"]
)
def test_short_small_and_pinned_copies_are_silent(run: list[Rank], tmp_path: Path) -> None:
    assert findings(run, "pageable-copy", tmp_path) == []


def test_a_copy_hidden_behind_kernels_is_silent(tmp_path: Path) -> None:
    def body(rank: Rank, _: int) -> None:
        rank.kernel(rank.begin + 20 * US, rank.begin + STEP, stream=9)
        rank.copy("HtoD (Pageable -> Device)", rank.begin + 2 * MS, rank.begin + 4 * MS, 10_000_000)

    assert findings(ranks(1, body), "pageable-copy", tmp_path) == []


def test_without_a_device_the_rule_is_skipped(tmp_path: Path) -> None:
    def body(rank: Rank, _: int) -> None:
        rank.host("aten::copy_", rank.begin, rank.begin + MS)

    assert "ProfilerActivity.CUDA" in skipped(ranks(1, body, cpu_only=True), "pageable-copy", tmp_path)


def test_a_copy_just_above_1_mb_is_told(tmp_path: Path) -> None:
    assert len(findings(copying(MS, size=1_100_000), "pageable-copy", tmp_path)) == 1
