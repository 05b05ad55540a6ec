from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hand_made import FIRST, MS, STEP, STEPS, US, Rank, findings, ranks, skipped

TRANSFER = 50 * US
Late = Callable[[Rank, int, int], None]  # (rank, from, to): what the late rank does meanwhile


def computes(rank: Rank, start: int, end: int) -> None:
    rank.kernel(start, end, "slow_gemm")


def loads(rank: Rank, start: int, end: int) -> None:
    rank.host("rankscope.data", start - US, end, "user_annotation")


def dawdles(rank: Rank, start: int, end: int) -> None:
    """Nothing is recorded: the host simply asks later."""


def late_run(
    lateness: dict[int, int],
    how: Late = computes,
    *,
    world: int = 4,
    steps: int = STEPS,
    hits: frozenset[int] = frozenset(range(100)),
    hosts: int = 100,
) -> list[Rank]:
    """Kernel, all-reduce, kernel; ranks come `lateness` ns later to the all-reduce, `hosts` ranks live on a host."""

    def body(rank: Rank, number: int) -> None:
        late = lateness.get(rank.rank, 0) if number in hits else 0
        ready, latest = rank.begin + 4 * MS, max(lateness.values()) if number in hits else 0
        rank.fill(rank.begin + FIRST, ready)
        if late:
            how(rank, ready, ready + late)
        asked = ready + late if late and how is not computes else None
        rank.collective(ready + late, ready + latest + TRANSFER, asked=asked)
        rank.fill(ready + latest + TRANSFER + US, rank.begin + STEP, asked=asked)

    made = [Rank(rank, world, f"node{rank // hosts}") for rank in range(world)]
    for rank in made:
        for number, _ in enumerate(rank.steps(steps)):
            body(rank, number)
    return made


def test_late_rank_is_named_and_priced(tmp_path: Path) -> None:
    (found,) = findings(late_run({2: 800 * US}), "straggler-rank", tmp_path)
    assert found.ranks == [2] and found.cost_ns == 800 * US and found.severity == "warning"
    assert found.cause == "compute" and found.confidence > 0.9
    evidence = {e.label: e.value for e in found.evidence}
    assert evidence["of all waiting in the run"] == 1.0
    assert evidence["collectives it came to last"] == STEPS


@pytest.mark.parametrize(("lateness", "speaks"), [(90 * US, False), (110 * US, True)])
def test_a_hundredth_of_the_step_is_the_threshold(lateness: int, speaks: bool, tmp_path: Path) -> None:
    assert bool(findings(late_run({2: lateness}), "straggler-rank", tmp_path)) is speaks


@pytest.mark.parametrize(("how", "cause"), [(computes, "compute"), (loads, "data"), (dawdles, "host")])
def test_the_part_of_its_step_that_is_longer_is_the_cause(how: Late, cause: str, tmp_path: Path) -> None:
    (found,) = findings(late_run({1: MS}, how), "straggler-rank", tmp_path)
    assert (found.ranks, found.cause) == ([1], cause)
    assert found.cost_ns == pytest.approx(MS, rel=0.02)


def test_a_delay_that_nothing_recorded_covers_has_an_unknown_cause(tmp_path: Path) -> None:
    def unseen(rank: Rank, start: int, end: int) -> None:
        rank.kernel(end - 2 * US, end - US, launched=False)

    (found,) = findings(late_run({1: MS}, unseen), "straggler-rank", tmp_path)
    assert (found.ranks, found.cause) == ([1], "unknown")
    assert "do not tune the network" in found.advice


def test_ranks_of_a_host_that_are_late_together_are_named_together(tmp_path: Path) -> None:
    run = late_run({4: MS, 5: MS + 2 * US}, world=8, hosts=2)
    (found,) = findings(run, "straggler-rank", tmp_path)
    assert found.ranks == [4, 5] and found.cost_ns == pytest.approx(MS, rel=0.01)


def test_of_two_ranks_on_one_host_only_the_late_one_is_named(tmp_path: Path) -> None:
    (found,) = findings(late_run({4: MS}, world=8, hosts=2), "straggler-rank", tmp_path)
    assert found.ranks == [4]


def test_a_rank_that_is_late_because_it_waited_is_not_named(tmp_path: Path) -> None:
    """Rank 1 computes longer; rank 0 waits for it in their tensor group and comes as late to the data group."""

    def body(rank: Rank, _: int) -> None:
        ready, partner = rank.begin + 4 * MS, rank.rank // 2 * 2
        late = MS if partner == 0 else 0
        arrival = ready + (MS if rank.rank == 1 else 0)
        rank.fill(rank.begin + FIRST, arrival)
        rank.collective(arrival, ready + late + TRANSFER, group=f"tp{partner}", ranks=(partner, partner + 1))
        data = (0, 2) if rank.rank % 2 == 0 else (1, 3)
        rank.collective(ready + late + TRANSFER + US, ready + MS + 2 * TRANSFER, group=f"dp{rank.rank % 2}", ranks=data)
        rank.fill(ready + MS + 2 * TRANSFER + US, rank.begin + STEP)

    (found,) = findings(ranks(4, body), "straggler-rank", tmp_path)
    assert found.ranks == [1] and found.cause == "compute"
    evidence = {e.label: e.value for e in found.evidence}
    assert evidence["of all waiting in the run"] > 0.99


def test_a_rank_that_is_late_in_half_of_the_steps_is_not_named(tmp_path: Path) -> None:
    run = late_run({2: 3 * MS}, hits=frozenset(range(0, STEPS, 2)))
    assert findings(run, "straggler-rank", tmp_path) == []


def test_turns_in_being_late_name_nobody(tmp_path: Path) -> None:
    def body(rank: Rank, number: int) -> None:
        ready, late = rank.begin + 4 * MS, MS if number % 4 == rank.rank else 0
        rank.fill(rank.begin + FIRST, ready + late)
        rank.collective(ready + late, ready + MS + TRANSFER)
        rank.fill(ready + MS + TRANSFER + US, rank.begin + STEP)

    assert findings(ranks(4, body), "straggler-rank", tmp_path) == []


@pytest.mark.parametrize(("lateness", "speaks"), [(900 * US, False), (1_200 * US, True)])
def test_on_few_steps_a_rank_needs_a_tenth_of_the_step_and_is_doubted(
    lateness: int, speaks: bool, tmp_path: Path
) -> None:
    found = findings(late_run({2: lateness}, steps=2), "straggler-rank", tmp_path)
    assert bool(found) is speaks
    for finding in found:
        assert finding.confidence <= 0.5 and "2 steps only" in finding.message


def test_without_step_marks_a_finding_about_a_rank_is_doubted(tmp_path: Path) -> None:
    run = late_run({2: 2 * MS})
    for rank in run:
        rank.events = [e for e in rank.events if not e["name"].startswith("ProfilerStep")]
    (found,) = findings(run, "straggler-rank", tmp_path)
    assert found.ranks == [2] and found.confidence <= 0.5 and found.steps == []


def test_a_rank_alone_in_its_folder_cannot_be_compared(tmp_path: Path) -> None:
    assert "every rank" in skipped(late_run({2: MS})[:1], "straggler-rank", tmp_path)


def test_a_run_of_one_rank_passes(tmp_path: Path) -> None:
    run = ranks(1, lambda rank, _: rank.fill(rank.begin + FIRST, rank.begin + STEP))
    assert findings(run, "straggler-rank", tmp_path) == []


@pytest.mark.parametrize(("later", "named"), [(400 * US, [4, 5]), (600 * US, [5])])
def test_ranks_are_named_together_where_that_returns_twice_what_the_worst_does(
    later: int, named: list[int], tmp_path: Path
) -> None:
    run = late_run({4: MS, 5: MS + later}, world=8, hosts=2)
    assert [found.ranks for found in findings(run, "straggler-rank", tmp_path)] == [named]


@pytest.mark.parametrize(
    ("lateness", "named"),
    [
        (lambda rank, step: MS + (50 * US if step % 2 == rank else 0), [[0, 1]]),  # each leads in every other step
        (lambda rank, step: MS if rank == 0 else 0, [[0]]),
        (lambda rank, step: MS if step % 2 == rank else 0, []),  # one in every other step, the other in the next
    ],
)
def test_ranks_of_a_host_that_are_late_in_groups_of_their_own_are_named_together(
    lateness: Callable[[int, int], int], named: list[list[int]], tmp_path: Path
) -> None:
    """Two ranks a host, of which each belongs to a data group over the hosts: nobody waits for both."""

    def body(rank: Rank, number: int) -> None:
        ready, place = rank.begin + 4 * MS, rank.rank % 2
        late, latest = (lateness(r, number) if r < 2 else 0 for r in (rank.rank, place))
        rank.fill(rank.begin + FIRST, ready + late)
        rank.collective(ready + late, ready + latest + TRANSFER, group=f"dp{place}", ranks=range(place, 6, 2))
        rank.fill(ready + latest + TRANSFER + US, rank.begin + STEP)

    run = ranks(6, body)
    for rank in run:
        rank.node = f"node{rank.rank // 2}"
    assert [found.ranks for found in findings(run, "straggler-rank", tmp_path)] == named
