from __future__ import annotations

from pathlib import Path

import pytest
from hand_made import FIRST, MS, STEP, US, Rank, findings, ranks

FORWARD = "DataParallel.forward"


def driving(devices: int, copies: int, name: str = FORWARD) -> list[Rank]:
    """One process; each device first copies from its neighbour for `copies`, then computes."""

    def body(rank: Rank, _: int) -> None:
        rank.host(name, rank.begin + US, rank.begin + 4 * MS, "user_annotation")
        for device in range(devices):
            start = rank.begin + FIRST
            rank.kernel(
                start, start + copies, "Memcpy PtoP (Device -> Device)", category="gpu_memcpy", device=device, bytes=1 << 20
            )
            rank.kernel(start + copies, rank.begin + STEP, device=device, stream=8)

    return ranks(1, body)


def test_several_devices_under_data_parallel_are_priced(tmp_path: Path) -> None:
    (found,) = findings(driving(2, MS), "data-parallel", tmp_path)
    assert found.cost_ns == MS + FIRST and "torchrun" in found.advice and "2 devices" in found.message


@pytest.mark.parametrize(
    "run",
    [driving(1, MS), driving(2, MS, "DistributedDataParallel.forward"), driving(2, 50 * US)],
    ids=["one device", "DDP", "below 1 % of the step"],
)
def test_one_device_ddp_and_cheap_copies_are_silent(run: list[Rank], tmp_path: Path) -> None:
    assert findings(run, "data-parallel", tmp_path) == []
