from __future__ import annotations

from pathlib import Path

import pytest
from hand_made import FIRST, MS, STEP, US, Rank, findings, ranks, skipped

DDP, FSDP = "DistributedDataParallel.forward", "FSDP::all_gather (layer)"
ALL_GATHER = "_allgather_base"


def communicating(*sizes: int, each: int, name: str = "allreduce", wrapper: str = "", hidden: bool = False) -> list[Rank]:
    """One exposed collective of `each` ns after the other, of these sizes in bytes."""

    def body(rank: Rank, _: int) -> None:
        at = rank.begin + 2 * MS
        rank.fill(rank.begin + FIRST, rank.begin + STEP - 50 * US if hidden else at)
        for size in sizes:
            rank.collective(at, at + each, elements=size // 4, name=name)
            at += each
        if not hidden:
            rank.fill(at, rank.begin + STEP)
        if wrapper:
            rank.host(wrapper, rank.begin, rank.begin + MS, "user_annotation")

    return ranks(2, body)


def test_messages_below_64_kb_are_priced(tmp_path: Path) -> None:
    (found,) = findings(communicating(*[32_000] * 10, each=20 * US), "small-collectives", tmp_path)
    assert found.cost_ns == 200 * US and "10 a step of 32.0 kB" in found.where and "64 kB" in found.where


@pytest.mark.parametrize(
    "run",
    [
        communicating(*[65_536] * 10, each=20 * US),
        communicating(*[32_000] * 4, *[1 << 24] * 17, each=30 * US),
        communicating(*[32_000] * 10, each=9 * US),
        communicating(*[32_000] * 50, each=20 * US, hidden=True),
    ],
    ids=["not small", "below 20 % of the transfers", "below 1 % of the step", "hidden"],
)
def test_larger_fewer_and_hidden_messages_are_silent(run: list[Rank], tmp_path: Path) -> None:
    assert findings(run, "small-collectives", tmp_path) == []


@pytest.mark.parametrize(("size", "wrapper", "speaks"), [(900_000, FSDP, True), (1_100_000, FSDP, False), (900_000, "", False)])
def test_small_units_are_told_of_fsdp_alone(size: int, wrapper: str, speaks: bool, tmp_path: Path) -> None:
    run = communicating(*[size] * 10, each=20 * US, name=ALL_GATHER, wrapper=wrapper)
    found = findings(run, "small-collectives", tmp_path)
    assert bool(found) is speaks and all("FSDP units" in f.where for f in found)


@pytest.mark.parametrize(
    ("number", "size", "wrapper", "speaks"),
    [(21, 4_000_000, DDP, True), (20, 4_000_000, DDP, False), (21, 6_000_000, DDP, False), (21, 4_000_000, "", False)],
)
def test_many_small_buckets_are_told_of_ddp_alone(
    number: int, size: int, wrapper: str, speaks: bool, tmp_path: Path
) -> None:
    found = findings(communicating(*[size] * number, each=20 * US, wrapper=wrapper), "small-collectives", tmp_path)
    assert bool(found) is speaks and all("DDP buckets" in f.where for f in found)


def test_all_reduces_of_a_tensor_group_are_not_taken_for_buckets(tmp_path: Path) -> None:
    def body(rank: Rank, _: int) -> None:
        at, partner = rank.begin + 2 * MS, rank.rank // 2 * 2
        rank.fill(rank.begin + FIRST, at)
        rank.host(DDP, rank.begin, rank.begin + MS, "user_annotation")
        for _i in range(30):
            rank.collective(at, at + 20 * US, elements=1_000_000, group=f"tp{partner}", ranks=(partner, partner + 1))
            at += 20 * US
        rank.collective(at, at + 20 * US, elements=1_000_000, group="dp")
        rank.fill(at + 20 * US, rank.begin + STEP)

    assert findings(ranks(4, body), "small-collectives", tmp_path) == []


def test_without_sizes_the_rule_is_skipped_and_without_communication_it_passes(tmp_path: Path) -> None:
    def unsized(rank: Rank, _: int) -> None:
        rank.fill(rank.begin + FIRST, rank.begin + STEP)
        rank.kernel(rank.begin + MS, rank.begin + 2 * MS, "ncclKernel_AllReduce_RING_LL_Sum_float", stream=20)

    assert "torch>=2.2" in skipped(ranks(2, unsized), "small-collectives", tmp_path)
    silent = ranks(2, lambda rank, _: rank.fill(rank.begin + FIRST, rank.begin + STEP))
    assert findings(silent, "small-collectives", tmp_path) == []


@pytest.mark.parametrize("sizes", [[60_000] * 10, [32_000] * 4 + [1 << 24] * 14], ids=["just small", "just a fifth"])
def test_just_below_64_kb_and_just_above_a_fifth_are_told(sizes: list[int], tmp_path: Path) -> None:
    assert len(findings(communicating(*sizes, each=30 * US), "small-collectives", tmp_path)) == 1
