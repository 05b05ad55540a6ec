from __future__ import annotations

from pathlib import Path

import pytest
from hand_made import MS, STEPS, US, Rank, findings, ranks, skipped


def drained(length: int, call: str = "cudaStreamSynchronize", copies: int = 0, steps: int = STEPS) -> list[Rank]:
    """A call waits for the device; the refill takes `length`."""

    def body(rank: Rank, _: int) -> None:
        start, _end = rank.gap(4 * MS, length)
        rank.call(call, start - 2 * MS, start + 2 * US)
        for i in range(copies):
            at = rank.begin + 9 * MS + i * 5 * US
            rank.copy("DtoH (Device -> Pinned)", at, at + US, 4)

    return ranks(1, body, steps=steps)


def test_the_refill_after_a_drain_is_priced(tmp_path: Path) -> None:
    (found,) = findings(drained(550 * US), "sync-points", tmp_path)
    assert found.cost_ns == 550 * US
    assert {e.label: e.value for e in found.evidence}["drains a step"] == 1
    assert "cudaStreamSynchronize" in found.where


@pytest.mark.parametrize(
    ("run", "speaks"),
    [
        (drained(480 * US), False),  # below 5 % of the step, few copies, no full synchronisation
        (drained(300 * US, copies=1), True),  # 11 usable steps: more than 10 copies a capture
        (drained(300 * US, copies=1, steps=10), False),  # 9 usable steps
        (drained(300 * US, call="cudaDeviceSynchronize"), True),
        (drained(90 * US, call="cudaDeviceSynchronize", copies=3), False),  # below 1 % of the step
    ],
)
def test_small_refills_count_only_with_many_copies_or_full_synchronisations(
    run: list[Rank], speaks: bool, tmp_path: Path
) -> None:
    assert bool(findings(run, "sync-points", tmp_path)) is speaks


def test_a_gap_without_a_blocking_call_is_not_a_drain(tmp_path: Path) -> None:
    run = ranks(1, lambda rank, _: rank.gap(4 * MS, 2 * MS) and None)
    assert findings(run, "sync-points", tmp_path) == []


def test_without_a_device_the_rule_is_skipped(tmp_path: Path) -> None:
    def body(rank: Rank, _: int) -> None:
        rank.host("aten::item", rank.begin, rank.begin + MS)

    assert "ProfilerActivity.CUDA" in skipped(ranks(1, body, cpu_only=True), "sync-points", tmp_path)


def test_waiting_for_a_collective_of_a_cpu_backend_is_priced_there(tmp_path: Path) -> None:
    """gloo's thread waits for the copy to the host, then reduces, then asks for the copy back."""

    def body(rank: Rank, _: int) -> None:
        start, end = rank.gap(4 * MS, 2 * MS)
        rank.call("cudaStreamSynchronize", start - MS, start + 2 * US)
        rank.host("gloo:all_reduce", start - MS, end - 600 * US, "user_annotation", tid=7)

    (found,) = findings(ranks(1, body), "sync-points", tmp_path)
    assert found.cost_ns == 600 * US
