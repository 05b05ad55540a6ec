from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import pytest
from corpus import corpus
from kineto_file import SECOND, trace, write

from rankscope.analyzers.errors import BadSelection, NothingToRead
from rankscope.analyzers.loading import LoadOptions, load_run, reading, worker
from rankscope.analyzers.run import Run


def load(*paths: Path, **options: object) -> Run:
    return load_run([str(path) for path in paths], LoadOptions(use_cache=False, **options))  # type: ignore[arg-type]


def said(run: Run, *words: str) -> list[str]:
    """The warnings in which all these words are."""
    return [warning for warning in run.warnings if all(word in warning for word in words)]


def test_a_folder_of_ranks_is_a_run_without_warnings(tmp_path: Path) -> None:
    for rank in range(4):
        write(tmp_path / f"rank{rank}.json.gz", rank, 4)
    run = load(tmp_path)
    assert [(r.rank, r.rank_source) for r in run.ranks] == [(rank, "distributedInfo") for rank in range(4)]
    assert run.world_size == 4 and run.missing_ranks == () and run.warnings == () and run.damaged == []


def test_peers_figures_carry_the_rank_of_the_run(tmp_path: Path) -> None:
    run = load(write(tmp_path / "rank3.json", None))
    assert [peer.rank for peer in run.ranks[0].record.facts.peers] == [3]


def test_missing_and_extra_ranks_are_said(tmp_path: Path) -> None:
    for rank in (0, 2, 9):
        write(tmp_path / f"{rank}.json", rank, 4)
    run = load(tmp_path)
    assert run.missing_ranks == (1, 3)
    assert said(run, "1, 3", "of 4", "no file") and said(run, "rank 9", "outside the world size 4")


def test_ranks_from_names_and_from_order_are_said(tmp_path: Path) -> None:
    for rank in range(2):
        write(tmp_path / f"named/rank{rank}.json", None, pid=10 + rank)
        write(tmp_path / f"ordered/trace-{'ab'[rank]}.json", None, pid=10 + rank)
    named, ordered = load(tmp_path / "named"), load(tmp_path / "ordered")
    assert {r.rank_source for r in named.ranks} == {"file name"} and said(named, "2 of 2 files", "file name")
    assert {r.rank_source for r in ordered.ranks} == {"order"} and said(ordered, "order", "trace-b.json as rank 1")


def test_a_rank_that_stands_behind_the_events_is_still_the_files_own(tmp_path: Path) -> None:
    for rank in (3, 5):
        whole = trace(rank, 8, steps=20_000)
        whole["distributedInfo"] = whole.pop("distributedInfo")
        (tmp_path / f"rank{rank - 3}.json.gz").write_bytes(gzip.compress(json.dumps(whole).encode()))
    run = load(tmp_path)
    assert [(r.rank, r.rank_source) for r in run.ranks] == [(3, "distributedInfo"), (5, "distributedInfo")]


def test_of_two_runs_the_newest_is_read_and_of_the_other_only_the_heads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for start in (0, 173):
        for rank in range(2):
            write(tmp_path / f"{start}-rank{rank}.json", rank, begin_ns=start * SECOND, pid=start + 10 + rank)
    read: list[str] = []
    real = worker.readers.read
    monkeypatch.setattr(worker.readers, "read", lambda path, **_: (read.append(os.path.basename(path)), real(path))[1])
    run = load(tmp_path)
    assert sorted(read) == ["173-rank0.json", "173-rank1.json"]
    (other,) = run.other_runs
    assert other.ranks == [0, 1] and said(run, "2 runs", other.id)
    again = load(tmp_path, run=other.id)
    assert [os.path.basename(r.path) for r in again.ranks] == ["0-rank0.json", "0-rank1.json"]
    with pytest.raises(BadSelection, match=run.id):
        load(tmp_path, run="no-such-run")


def test_a_run_without_times_in_its_heads_can_be_chosen_by_the_id_that_was_listed(tmp_path: Path) -> None:
    for start in (0, 173):
        for rank in range(2):
            whole = trace(rank, begin_ns=start * SECOND, pid=start + 10 + rank, steps=20_000)
            whole["baseTimeNanoseconds"] = whole.pop("baseTimeNanoseconds")
            text = json.dumps(whole).encode()
            (tmp_path / f"{start:03}-rank{rank}.json.gz").write_bytes(gzip.compress(text))
    first = load(tmp_path)
    (other,) = first.other_runs
    second = load(tmp_path, run=other.id)
    assert {r.path for r in first.ranks} | {r.path for r in second.ranks} == {str(p) for p in tmp_path.iterdir()}
    assert len(first.ranks) == len(second.ranks) == 2


def test_two_captures_of_the_same_processes_are_said_to_be_that(tmp_path: Path) -> None:
    for start in (0, 5):
        for rank in range(2):
            write(tmp_path / f"{start}-rank{rank}.json", rank, begin_ns=start * SECOND, pid=10 + rank)
    run = load(tmp_path)
    assert len(run.ranks) == 2 and len(run.other_runs) == 1 and said(run, "same processes")


def test_only_the_ranks_asked_for_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for rank in range(4):
        write(tmp_path / f"rank{rank}.json", rank, 4)
    real = worker.readers.read
    monkeypatch.setattr(worker.readers, "read", lambda path, **_: pytest.fail(path) if "rank2" in path else real(path))
    run = load(tmp_path, ranks={0, 3})
    assert [r.rank for r in run.ranks] == [0, 3]
    assert run.missing_ranks == () and said(run, "1, 2", "left out as asked")
    with pytest.raises(BadSelection, match="0-3"):
        load(tmp_path, ranks={7})


def test_files_that_are_no_traces_are_named_with_the_reason_and_do_not_stop_the_rest(tmp_path: Path) -> None:
    write(tmp_path / "rank0.json", 0, 1)
    (tmp_path / "config.json").write_text('{"learning_rate": 1}')
    (tmp_path / "et.json").write_text('{"schema": "1.0.1", "pid": 1, "time": "", "start_ts": 1, "nodes": []}')
    (tmp_path / "empty.json").write_text("")
    run = load(tmp_path)
    assert [r.rank for r in run.ranks] == [0]
    assert len(run.unreadable) == 3 and said(run, "et.json", "execution trace") and said(run, "empty.json")
    assert sorted(os.path.basename(p) for p in run.damaged) == ["config.json", "empty.json", "et.json"]


def test_many_stray_files_make_few_warnings(tmp_path: Path) -> None:
    write(tmp_path / "rank0.json", 0, 1)
    for number in range(100):
        (tmp_path / f"config{number:03}.json").write_text('{"learning_rate": 1}')
    run = load(tmp_path)
    assert len(run.unreadable) == 100 and len(run.warnings) == 6 and said(run, "95 more files")


def test_a_truncated_file_is_read_as_far_as_it_goes_and_counts_as_damaged(tmp_path: Path) -> None:
    file = write(tmp_path / "rank0.json", 0, 1)
    file.write_bytes(file.read_bytes()[:-100])
    run = load(file)
    assert run.ranks[0].record.meta.truncated and run.damaged == [str(file)]


def test_nothing_to_read_says_what_was_looked_at(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    with pytest.raises(NothingToRead, match=r"none of 1 entry ends in \.json"):
        load(tmp_path)
    (tmp_path / "a.json").write_text("[]")
    with pytest.raises(NothingToRead, match=r"a\.json"):
        load(tmp_path)


def test_a_copy_of_a_file_is_left_out_and_named(tmp_path: Path) -> None:
    original = write(tmp_path / "rank0.json", 0, 1)
    (tmp_path / "rank0 (copy).json").write_bytes(original.read_bytes())
    run = load(tmp_path)
    assert len(run.ranks) == 1 and run.other_runs == () and said(run, "copy")


def test_a_file_beside_its_compressed_self_is_read_once(tmp_path: Path) -> None:
    write(tmp_path / "rank0.json", 0, 1)
    write(tmp_path / "rank0.json.gz", 0, 1)
    run = load(tmp_path)
    assert len(run.ranks) == 1 and run.other_runs == () and said(run, "rank0.json.gz", "copy")


def test_a_copied_folder_is_left_out_and_a_different_run_at_the_same_instant_is_not(tmp_path: Path) -> None:
    for folder, kernel_ns in (("a", 500_000), ("b", 500_000), ("c", 700_000)):
        for rank in range(2):
            write(tmp_path / folder / f"rank{rank}.json", rank, kernel_ns=kernel_ns)
    run = load(tmp_path)
    assert len(run.ranks) == 2 and len(run.other_runs) == 1 and len(said(run, "copy")) == 2


def test_names_that_are_not_text_are_read_and_shown_escaped(tmp_path: Path) -> None:
    os.rename(write(tmp_path / "rank0.json"), os.path.join(os.fsencode(tmp_path), b"rank0-\xff.json"))
    run = load(tmp_path)
    assert run.ranks[0].path.endswith(r"rank0-\udcff.json")
    run.ranks[0].path.encode()


@pytest.mark.parametrize("small", [True, False])
def test_progress_ends_at_the_total_and_never_goes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small: bool
) -> None:
    for rank in range(4):
        write(tmp_path / f"rank{rank}.json", rank, 4)
    if not small:
        monkeypatch.setattr(reading, "ALONE_BYTES", 0)
    seen: list[tuple[int, int]] = []
    load_run([str(tmp_path)], LoadOptions(use_cache=False, jobs=2), lambda done, total: seen.append((done, total)))
    size = sum(file.stat().st_size for file in tmp_path.iterdir())
    assert seen[0] == (0, size) and seen[-1] == (size, size) and seen == sorted(seen) and len(seen) == 5


# ---- real traces -----------------------------------------------------------------------------------------------------


def test_real_runs_in_one_folder_are_told_apart() -> None:
    run = load(corpus("kineto-torchrec-4rank/two-runs-in-one-folder"))
    assert [r.rank for r in run.ranks] == [0, 1, 2, 3] and run.world_size == 4
    assert {r.path.split("_")[1].split(".")[0] for r in run.ranks} == {"55988", "55989", "55990", "55991"}
    assert [other.ranks for other in run.other_runs] == [[0, 1, 2, 3]]


def test_two_real_ranks_of_128_are_one_run_that_says_what_is_missing() -> None:
    run = load(corpus("hta/sampled_rank-0.json.gz"), corpus("hta/sampled_rank-1.json.gz"))
    assert [r.rank for r in run.ranks] == [0, 1] and run.other_runs == ()
    assert run.missing_ranks == tuple(range(2, 128)) and said(run, "2-127 of 128")


def test_a_real_folder_of_many_runs_is_sorted_out() -> None:
    run = load(corpus("gloo-4rank"))
    assert [len(other.ranks) for other in run.other_runs] == [4, 4] and len(run.ranks) == 4


def test_a_real_execution_trace_is_refused_in_a_word() -> None:
    with pytest.raises(NothingToRead, match="execution trace"):
        load(corpus("chakra-et-2rank"))


@pytest.mark.parametrize(
    ("file", "rank", "source"),
    [
        ("hta/rank_not_found.json.gz", 0, "order"),
        ("hta/distributed_info_not_found.json.gz", 0, "order"),
        ("hta/rank_non_gpu.json.gz", 0, "distributedInfo"),
        ("hta/rank-70.Mar_25_20_48_12.2861.pt.trace.json.gz", 70, "file name"),
        ("kineto-tb-samples/top_level_list/worker0.pt.trace.json.gz", 0, "file name"),
    ],
)
def test_ranks_of_real_files_come_from_where_they_are(file: str, rank: int, source: str) -> None:
    (loaded,) = load(corpus(file)).ranks
    assert (loaded.rank, loaded.rank_source) == (rank, source)
