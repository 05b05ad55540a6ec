from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hand_made import FIRST, MS, STEP, STEPS, US, Rank, findings, ranks


def exchanging(elements: Callable[[int, int], int], took: int = MS, steps: int = STEPS) -> list[Rank]:
    """An exposed all-to-all of `took`; `elements(rank, step)` are what each rank moves."""

    def body(rank: Rank, number: int) -> None:
        at = rank.begin + 4 * MS
        rank.fill(rank.begin + FIRST, at)
        rank.collective(at, at + took, elements=elements(rank.rank, number), name="all_to_allv")
        rank.fill(at + took, rank.begin + STEP)

    return ranks(4, body, steps=steps)


def test_the_rank_with_most_bytes_is_named_and_priced(tmp_path: Path) -> None:
    (found,) = findings(exchanging(lambda rank, _: 2_000_000 if rank == 1 else 1_000_000), "uneven-work", tmp_path)
    assert found.ranks == [1] and "1.60 times the mean" in found.message
    assert found.cost_ns == pytest.approx(MS * (1 - 1 / 1.6), abs=1)


@pytest.mark.parametrize(
    "run",
    [
        exchanging(lambda rank, _: 1_250_000 if rank == 1 else 1_000_000),
        exchanging(lambda rank, step: 2_000_000 if rank == step % 4 else 1_000_000),
        exchanging(lambda rank, _: 2_000_000 if rank == 1 else 1_000_000, took=250 * US),
    ],
    ids=["below 1.2 times the mean", "another rank every step", "below 1 % of the step"],
)
def test_small_passing_and_cheap_imbalance_is_silent(run: list[Rank], tmp_path: Path) -> None:
    assert findings(run, "uneven-work", tmp_path) == []


def experts(more: int, elements: int, took: int = 400 * US) -> list[Rank]:
    """Rank 1's experts compute `more` longer than the others' before an all-to-all that brings the tokens back."""

    def body(rank: Rank, _: int) -> None:
        at, together = rank.begin + 4 * MS, rank.begin + 4 * MS + more
        arrival = together if rank.rank == 1 else at
        rank.fill(rank.begin + FIRST, arrival)
        rank.collective(
            arrival, together + took, elements=elements if rank.rank == 1 else 1_000_000, name="all_to_allv"
        )
        rank.fill(together + took, rank.begin + STEP)

    return ranks(4, body)


def test_waiting_for_the_experts_with_most_tokens_is_part_of_the_price(tmp_path: Path) -> None:
    """Even tokens return what this rank computes above the mean: three quarters of what it does above the others."""
    (found,) = findings(experts(800 * US, 2_000_000), "uneven-work", tmp_path)
    assert found.ranks == [1]
    assert found.cost_ns == pytest.approx(400 * US * (1 - 1 / 1.6) + 600 * US, abs=2)


@pytest.mark.parametrize(("elements", "named"), [(2_000_000, []), (1_250_000, [[1]])], ids=["more tokens", "as many"])
def test_a_rank_that_computes_longer_for_its_tokens_is_no_straggler(
    elements: int, named: list[list[int]], tmp_path: Path
) -> None:
    run = experts(800 * US, elements)
    assert [found.ranks for found in findings(run, "straggler-rank", tmp_path)] == named


def piped(*stages: int, chains: int = 2, ring: bool = False) -> list[Rank]:
    """Ranks in pipelines, each of which computes what its stage says, then sends to its neighbours."""
    depth = len(stages)

    def body(rank: Rank, _: int) -> None:
        stage, first = rank.rank % depth, rank.rank // depth * depth
        rank.fill(rank.begin + FIRST, rank.begin + FIRST + stages[stage])
        at = rank.begin + 9 * MS
        for other in (stage - 1, stage + 1):
            if not ring and not 0 <= other < depth:
                continue
            peer = first + other % depth
            for name, src, dst in (("send", rank.rank, peer), ("recv", peer, rank.rank)):
                rank.collective(at, at + 10 * US, name=name, group="pp", **{"Src Rank": src, "Dst Rank": dst})
                at += 10 * US
        rank.fill(at, at + US)

    return ranks(chains * depth, body)


def test_the_heaviest_stage_is_named_with_all_its_ranks_and_priced(tmp_path: Path) -> None:
    (found,) = findings(piped(4 * MS, 4 * MS, 4 * MS, 5 * MS), "uneven-work", tmp_path)
    assert found.ranks == [3, 7] and "Stage 3" in found.message and "1.25 times" in found.message
    assert found.cost_ns == pytest.approx(5 * MS - 4.25 * MS, rel=0.01)


@pytest.mark.parametrize(
    "run",
    [piped(4 * MS, 4 * MS, 4 * MS, 4_380 * US), piped(4 * MS, 6 * MS), piped(4 * MS, 4 * MS, 6 * MS, ring=True)],
    ids=["below 1.1 of the median stage", "two ranks are no pipeline", "a ring is no pipeline"],
)
def test_light_stages_pairs_and_rings_are_silent(run: list[Rank], tmp_path: Path) -> None:
    assert findings(run, "uneven-work", tmp_path) == []
