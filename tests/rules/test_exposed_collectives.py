from __future__ import annotations

from pathlib import Path

from hand_made import ASKED, FIRST, MS, STEP, US, Rank, findings, ranks


def exposed(transfer: int, *, lateness: int = 0, next_asked: int = ASKED, world: int = 2) -> list[Rank]:
    """Kernel, all-reduce, kernel; rank 1 comes `lateness` later to the all-reduce than the others."""

    def body(rank: Rank, _: int) -> None:
        arrival = rank.begin + 4 * MS + (lateness if rank.rank == 1 else 0)
        end = rank.begin + 4 * MS + lateness + transfer
        rank.fill(rank.begin + FIRST, arrival)
        rank.collective(arrival, end)
        rank.kernel(end + 10 * US, rank.begin + STEP, asked=rank.begin + next_asked)

    return ranks(world, body)


def test_exposed_transfers_are_priced(tmp_path: Path) -> None:
    (found,) = findings(exposed(550 * US), "exposed-collectives", tmp_path)
    assert found.cost_ns == 550 * US and found.ranks == [] and "all_reduce" in found.where


def test_transfers_below_the_threshold_are_silent(tmp_path: Path) -> None:
    assert findings(exposed(490 * US), "exposed-collectives", tmp_path) == []


def test_waiting_for_a_late_rank_is_not_worth_hiding(tmp_path: Path) -> None:
    assert findings(exposed(100 * US, lateness=3 * MS, world=4), "exposed-collectives", tmp_path) == []


def test_communication_before_the_next_launch_is_the_host_s(tmp_path: Path) -> None:
    run = exposed(2 * MS, next_asked=4 * MS + 1_950 * US)
    assert findings(run, "exposed-collectives", tmp_path) == []


def test_communication_under_computation_is_silent(tmp_path: Path) -> None:
    def body(rank: Rank, _: int) -> None:
        rank.fill(rank.begin + FIRST, rank.begin + STEP)
        rank.collective(rank.begin + MS, rank.begin + 9 * MS)

    assert findings(ranks(2, body), "exposed-collectives", tmp_path) == []


def test_without_the_peers_files_the_waiting_included_is_said(tmp_path: Path) -> None:
    (found,) = findings(exposed(2 * MS)[:1], "exposed-collectives", tmp_path)
    assert "waiting for the ranks whose files are missing included" in found.message


def test_what_small_collectives_cost_is_priced_there(tmp_path: Path) -> None:
    def body(rank: Rank, _: int) -> None:
        at = rank.begin + 4 * MS
        rank.fill(rank.begin + FIRST, at)
        for elements, length in ((1 << 20, large), (8_000, 900 * US)):
            rank.collective(at, at + length, elements=elements)
            at += length
        rank.fill(at + US, rank.begin + STEP)

    large = 490 * US
    assert findings(ranks(2, body), "exposed-collectives", tmp_path) == []
    large = 550 * US
    (found,) = findings(ranks(2, body), "exposed-collectives", tmp_path)
    assert found.cost_ns == 550 * US
