from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankscope.analyzers.errors import BadSelection
from rankscope.analyzers.loading.ranks import Capture
from rankscope.analyzers.loading.runs import chosen, holding, runs, without_copies

SECOND = 10**9
T0 = 1_700_000_000 * SECOND  # 2023-11-14 22:13:20


def capture(
    rank: int | None,
    at_s: float | None = 0.0,
    *,
    folder: str = "/t/run",
    world: int | None = 4,
    host: str | None = "a",
    pid: int | None = None,
) -> Capture:
    started = None if at_s is None else T0 + round(at_s * SECOND)
    pid = 100 + (rank or 0) if pid is None else pid
    return Capture(f"{folder}/f{rank}-{at_s}-{pid}.json", rank, "distributedInfo", world, started, host, pid)


def shape(found: list[Capture]) -> list[tuple[list[int], list[float]]]:
    """Per run, newest first: its ranks and when each began, in seconds."""
    return [(r.ranks, [((c.started_ns or 0) - T0) / SECOND for c in r.captures]) for r in runs(found)]


def test_one_file_a_rank_is_one_run() -> None:
    found = [capture(rank, rank / 10) for rank in range(4)]
    assert shape(found) == [([0, 1, 2, 3], [0, 0.1, 0.2, 0.3])]


def test_two_runs_in_one_folder_are_told_apart_by_time_newest_first() -> None:
    found = [capture(rank, at, pid=int(at) + rank) for at in (0, 173) for rank in range(4)]
    assert shape(found) == [([0, 1, 2, 3], [173.0] * 4), ([0, 1, 2, 3], [0.0] * 4)]


def test_windows_of_the_same_processes_seconds_apart_are_not_merged() -> None:
    found = [capture(rank, at + rank / 100) for at in (0, 5, 10) for rank in range(2)]
    assert shape(found) == [([0, 1], [10, 10.01]), ([0, 1], [5, 5.01]), ([0, 1], [0, 0.01])]


def test_windows_pair_by_order_when_the_clock_of_a_host_is_eleven_seconds_ahead() -> None:
    found = [capture(0, at, host="a") for at in (0, 5)] + [capture(1, at + 11.56, host="b") for at in (0, 5)]
    assert shape(found) == [([0, 1], [5, 16.56]), ([0, 1], [0, 11.56])]


def test_a_rank_that_lacks_a_window_is_fitted_in_by_its_hosts_clock() -> None:
    found = [capture(0, at) for at in (0, 5, 10)]
    found += [capture(1, at + 11.5, host="b") for at in (0, 5, 10)]
    found += [capture(2, 5 + 11.5, host="b"), capture(3, 10)]
    assert [ranks for ranks, _ in shape(found)] == [[0, 1, 3], [0, 1, 2], [0, 1]]


def test_hosts_whose_clocks_differ_by_seconds_are_one_run() -> None:
    found = [capture(rank, 11.56 * (rank > 1), host="ab"[rank > 1]) for rank in range(4)]
    assert [ranks for ranks, _ in shape(found)] == [[0, 1, 2, 3]]


def test_hosts_whose_clocks_differ_by_an_hour_are_one_run_when_they_make_up_the_world() -> None:
    found = [capture(rank, 3600 * (rank > 1), host="ab"[rank > 1]) for rank in range(4)]
    assert [ranks for ranks, _ in shape(found)] == [[0, 1, 2, 3]]
    assert [ranks for ranks, _ in shape(found[:3])] == [[2], [0, 1]]


def test_a_run_may_be_spread_over_folders_of_ranks() -> None:
    found = [capture(rank, folder=f"/t/run/rank_{rank}") for rank in range(4)]
    (run,) = runs(found)
    assert run.ranks == [0, 1, 2, 3] and run.id == "run-20231114-221320"


def test_folders_of_ranks_with_several_windows_each_are_several_runs() -> None:
    found = [capture(rank, at, folder=f"/t/run/rank_{rank}") for at in (0, 5) for rank in range(2)]
    assert [ranks for ranks, _ in shape(found)] == [[0, 1], [0, 1]]


def test_folders_that_each_hold_all_ranks_are_several_runs_even_at_the_same_time() -> None:
    found = [capture(rank, folder=f"/t/{name}", pid=ord(name) * 10 + rank) for name in "xy" for rank in range(2)]
    assert [run.ranks for run in runs(found)] == [[0, 1], [0, 1]]
    assert sorted(sorted(c.folder for c in run.captures) for run in runs(found)) == [["/t/x"] * 2, ["/t/y"] * 2]


def test_jobs_of_different_sizes_are_never_one_run() -> None:
    found = shape([capture(0, world=4), capture(1, world=4), capture(2, world=8)])
    assert sorted(ranks for ranks, _ in found) == [[0, 1], [2]]


def test_files_without_a_rank_are_numbered_in_natural_order_around_ranks_that_are_known() -> None:
    found = [replace(capture(None, pid=number), path=f"/t/host_{number}.json") for number in (9, 10, 11)]
    (run,) = runs([*found, capture(1)])
    assert [c.path for c in run.captures if c.pid != 101] == ["/t/host_9.json", "/t/host_10.json", "/t/host_11.json"]
    assert run.ranks == [0, 1, 2, 3]


def test_captures_of_one_process_that_state_no_rank_share_one() -> None:
    found = [capture(None, at, pid=500, world=None) for at in (0, 5)]
    assert [run.ranks for run in runs(found)] == [[0], [0]]


def test_files_that_do_not_say_when_they_began_are_divided_by_name() -> None:
    found = [replace(capture(rank, None), path=f"/t/{name}-rank{rank}") for name in "ab" for rank in range(2)]
    assert sorted([c.path[3] for c in run.captures] for run in runs(found)) == [["a", "a"], ["b", "b"]]


def test_a_second_file_of_the_same_capture_is_a_copy() -> None:
    original, copy = capture(0), replace(capture(0), path="/t/run/copy.json")
    found = [original, copy, capture(1)]
    assert without_copies(found, lambda one, other: False) == ([original, capture(1)], [(copy, original)])


@pytest.mark.parametrize("alike", [True, False])
def test_in_another_folder_only_a_file_of_the_same_content_is_a_copy(alike: bool) -> None:
    original, other = capture(0), capture(0, folder="/t/other")
    kept, copies = without_copies([original, other], lambda one, two: alike)
    assert (kept, copies) == (([original], [(other, original)]) if alike else ([original, other], []))


def test_ranks_that_begin_at_the_same_instant_in_processes_of_one_number_are_no_copies() -> None:
    found = [capture(rank, pid=1) for rank in range(4)]
    assert without_copies(found, lambda one, other: True) == (found, [])


def test_the_newest_whole_run_is_chosen_and_an_incomplete_newer_one_is_not() -> None:
    found = runs([capture(r, at) for at in (0, 200) for r in range(4)] + [capture(r, 400) for r in range(3)])
    assert [len(run.captures) for run in found] == [3, 4, 4]
    assert chosen(found, None) is found[1]


def test_without_a_whole_run_the_one_with_most_ranks_is_chosen() -> None:
    found = runs([capture(0, 0), capture(1, 0), capture(0, 200)])
    assert chosen(found, None).ranks == [0, 1]


def test_a_run_is_chosen_by_the_beginning_of_its_id_when_that_is_unambiguous() -> None:
    found = runs([capture(r, at) for at in (0, 200) for r in range(4)])
    assert chosen(found, "run-20231114-2213").id == "run-20231114-221320"
    for asked in ("run-2023", "other"):
        with pytest.raises(BadSelection, match="run-20231114-221320"):
            chosen(found, asked)


def test_ids_are_unique_and_do_not_depend_on_the_order_of_files() -> None:
    found = [capture(rank, at) for at in (0, 0.1, 0.2) for rank in range(2)]
    ids = [run.id for run in runs(found)]
    assert ids == ["run-20231114-221320-3", "run-20231114-221320-2", "run-20231114-221320"]
    assert [run.id for run in runs(found[::-1])] == ids


def test_an_id_can_be_typed_whatever_the_folder_is_called() -> None:
    (run,) = runs([capture(0, None, folder="/t/my run; rm *")])
    assert run.id == "my-run-rm"


@given(
    st.lists(
        st.builds(
            capture,
            st.none() | st.integers(0, 3),
            st.none() | st.sampled_from([0.0, 0.5, 5.0, 30.0, 300.0]),
            folder=st.sampled_from(["/t/a", "/t/b", "/t/b/rank_0"]),
            world=st.none() | st.sampled_from([2, 4]),
            host=st.none() | st.sampled_from(["a", "b"]),
            pid=st.sampled_from([1, 100, 101]),
        ),
        min_size=1,
        max_size=12,
        unique_by=lambda c: c.path,
    )
)
def test_every_file_is_in_one_run_and_no_run_has_a_rank_twice(found: list[Capture]) -> None:
    sorted_out = runs(found)
    assert sorted(c.path for run in sorted_out for c in run.captures) == sorted(c.path for c in found)
    for run in sorted_out:
        assert len(set(run.ranks)) == len(run.captures)
        assert len({c.world_size for c in run.captures} - {None}) <= 1
    assert len({run.id for run in sorted_out}) == len(sorted_out)
    assert chosen(sorted_out, None) in sorted_out


def test_a_run_is_found_again_by_one_of_its_files() -> None:
    found = runs([capture(r, at) for at in (0, 200) for r in range(2)])
    assert holding(found, found[1].captures[0].path) is found[1]
    assert holding(found, "absent") is None
