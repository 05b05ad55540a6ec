from __future__ import annotations

from pathlib import Path

import pytest
from hand_made import MS, STEP, US, Rank, findings, ranks, skipped

WORKERS = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
ALONE = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


def starved(length: int, loader: str = WORKERS) -> Rank:
    def body(rank: Rank, _: int) -> None:
        start, end = rank.gap(4 * MS, length)
        rank.host(loader, start - US, end, "user_annotation")

    return ranks(1, body)[0]


def test_a_device_that_waits_for_data_is_priced(tmp_path: Path) -> None:
    (found,) = findings(starved(550 * US), "data-starved", tmp_path)
    assert found.cost_ns == 550 * US and found.ranks == [] and found.severity == "warning"
    assert "num_workers" in found.advice and "num_workers=0" not in found.where


def test_waiting_below_the_threshold_is_silent(tmp_path: Path) -> None:
    assert findings(starved(490 * US), "data-starved", tmp_path) == []


def test_a_loader_behind_a_busy_device_costs_nothing(tmp_path: Path) -> None:
    def body(rank: Rank, _: int) -> None:
        rank.fill(rank.begin + 20 * US, rank.begin + STEP)
        rank.host(WORKERS, rank.begin + 10 * US, rank.begin + 9 * MS, "user_annotation")

    assert findings(ranks(1, body), "data-starved", tmp_path) == []


def test_a_loader_without_workers_gets_them_as_advice(tmp_path: Path) -> None:
    (found,) = findings(starved(2 * MS, ALONE), "data-starved", tmp_path)
    assert "num_workers=0" in found.where and found.severity == "critical"
    assert found.cost_ns == pytest.approx(2 * MS, rel=0.01)


def test_without_a_loader_range_the_rule_says_how_to_record_one(tmp_path: Path) -> None:
    record = skipped(ranks(1, lambda rank, _: rank.gap(4 * MS, MS) and None), "data-starved", tmp_path)
    assert "record_function" in record and "\n" not in record
