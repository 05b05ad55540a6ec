from __future__ import annotations

import pytest

from rankscope.analyzers.loading.ranks import captures, named_ranks
from rankscope.analyzers.trace.readers import Head


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("rank0.json", 0),
        ("rank-70.Mar_25_20_48_12.2861.pt.trace.json.gz", 70),
        ("sampled_rank_3.json.gz", 3),
        ("worker7_step_12.1694128201553.pt.trace.json.gz", 7),
        ("7bd25b_worker0.pt.trace.json.gz", 0),
        ("rank_12/trace.json", 12),
        ("local_rank1_rank9.json", 9),
        ("tp_rank_3_rank_11.json", 11),
        ("rank4_worker0.json", 4),
    ],
)
def test_a_name_that_says_rank_or_worker_states_it(name: str, rank: int) -> None:
    assert named_ranks([name]) == {name: rank}


@pytest.mark.parametrize(
    "name",
    [
        "host_19490.1698954910152757753.pt.trace.json",  # process and time
        "train_resnet18.json.gz",
        "step_12.json",
        "trace_step_0.json",
        "lowrank8.json",
        "step_based_trace_2543932.json.gz",
        "benchmark_result_2869224_1695835535_trace.json.gz",
        "local_rank0.json",
        "trace.json",
    ],
)
def test_other_numbers_are_no_ranks(name: str) -> None:
    assert named_ranks([name]) == {}


def test_bare_numbers_that_tell_neighbours_apart_are_ranks() -> None:
    assert named_ranks(["t/trace_0.json", "t/trace_1.json", "t/trace_2.json"]) == {
        "t/trace_0.json": 0,
        "t/trace_1.json": 1,
        "t/trace_2.json": 2,
    }
    assert named_ranks(["0.json", "1.json"]) == {"0.json": 0, "1.json": 1}
    assert named_ranks(["0_x.json", "1_x.json"]) == {"0_x.json": 0, "1_x.json": 1}
    assert named_ranks(["r/0/t.json", "r/1/t.json"]) == {"r/0/t.json": 0, "r/1/t.json": 1}


def test_bare_numbers_beyond_the_number_of_files_are_ranks_only_below_a_stated_world() -> None:
    names = ["trace_40.json", "trace_41.json"]
    assert named_ranks(names) == {}
    assert named_ranks(names, dict.fromkeys(names, 64)) == {"trace_40.json": 40, "trace_41.json": 41}
    assert named_ranks(names, dict.fromkeys(names, 8)) == {}


def test_what_the_file_states_comes_before_its_name() -> None:
    def head(path: str, rank: int | None) -> Head:
        return Head(path, rank, 8, 0, None, None, 1, 1)

    found = captures({p: head(p, r) for p, r in (("rank3.json", 5), ("rank4.json", None), ("trace.json", None))})
    assert [(c.rank, c.rank_source) for c in found] == [(5, "distributedInfo"), (4, "file name"), (None, "order")]


@pytest.mark.parametrize("absurd", [-1, 10**12])
def test_absurd_ranks_and_world_sizes_count_as_not_stated(absurd: int) -> None:
    (found,) = captures({"t.json": Head("t.json", absurd, absurd, 0, None, None, 1, 1)})
    assert (found.rank, found.rank_source, found.world_size) == (None, "order", None)


def test_times_without_a_base_do_not_say_when_a_capture_began() -> None:
    heads = {"a": Head("a", 0, 1, None, None, None, 5_000, 1), "b": Head("b", 0, 1, 10**18, None, None, 7, 1)}
    assert [c.started_ns for c in captures(heads)] == [None, 10**18 + 7]
