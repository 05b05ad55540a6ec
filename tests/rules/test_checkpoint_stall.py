from __future__ import annotations

from pathlib import Path

from hand_made import MS, STEPS, US, Rank, findings, ranks, skipped


def saving(lengths: dict[int, int], step: int = 5) -> list[Rank]:
    """By rank: how long the device stands still for one checkpoint, in one step of all."""

    def body(rank: Rank, number: int) -> None:
        start, end = rank.gap(4 * MS, lengths[rank.rank] if number == step else US)
        if number == step:
            rank.host("torch.save", start - US, end, "user_annotation")

    return ranks(len(lengths), body)


def test_one_checkpoint_is_spread_over_the_run_and_the_longest_rank_counts(tmp_path: Path) -> None:
    (found,) = findings(saving({0: MS, 1: 3 * MS}), "checkpoint-stall", tmp_path)
    assert found.cost_ns == round(3 * MS / (STEPS - 1))  # the first step is no usable one
    assert found.ranks == [] and {e.label: e.value for e in found.evidence}["rank with most"] == 1


def test_a_checkpoint_below_a_hundredth_of_the_run_is_silent(tmp_path: Path) -> None:
    assert findings(saving({0: MS, 1: MS}), "checkpoint-stall", tmp_path) == []


def test_a_checkpoint_written_behind_a_busy_device_is_silent(tmp_path: Path) -> None:
    def body(rank: Rank, _: int) -> None:
        rank.fill(rank.begin + 20 * US, rank.begin + 10 * MS)
        rank.host("torch.save", rank.begin + 10 * US, rank.begin + 9 * MS, "user_annotation")

    assert findings(ranks(1, body), "checkpoint-stall", tmp_path) == []


def test_without_a_checkpoint_range_the_rule_says_how_to_record_one(tmp_path: Path) -> None:
    record = skipped(ranks(1, lambda rank, _: rank.gap(4 * MS, MS) and None), "checkpoint-stall", tmp_path)
    assert "torch.save" in record


def test_a_checkpoint_just_above_a_hundredth_of_the_run_is_told(tmp_path: Path) -> None:
    assert len(findings(saving({0: 1300 * US, 1: MS}), "checkpoint-stall", tmp_path)) == 1
