"""Who holds up a job: every scenario has one right answer."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path

import pytest
from corpus import corpus
from hang.made_dumps import Asked, dump, write

from rankscope.analyzers.hang.gathering import gather
from rankscope.analyzers.hang.judging import judge
from rankscope.analyzers.hang.verdict import Verdict
from rankscope.ui.cli import main

ALL = {"0": range(4)}
FIRST, SECOND = Asked(seq=1), Asked(seq=2, name="nccl:_all_gather_base")


def verdict(folder: Path) -> Verdict:
    found = gather(str(folder))
    return judge(found.dumps, found.world_size)


@pytest.mark.parametrize("as_json", [False, True], ids=["pickle", "json"])
@pytest.mark.parametrize("gloo", [False, True], ids=["nccl", "gloo"])
def test_the_rank_that_never_came_is_named(gloo: bool, as_json: bool, tmp_path: Path) -> None:
    waiting = dump([FIRST, SECOND.waiting()], ALL, gloo=gloo)
    dumps = {rank: waiting for rank in (0, 1, 3)} | {2: dump([FIRST], ALL, gloo=gloo)}
    found = verdict(write(tmp_path, dumps, as_json=as_json))
    assert (found.verdict, found.culprits, found.group_ranks) == ("hang", [2], [0, 1, 2, 3])
    assert found.last_common == "all_reduce number 1"
    assert found.waits == {0: [2], 1: [2], 3: [2]}
    assert "rank 2 never asked for _all_gather_base number 2" in found.evidence[0]


def test_a_rank_that_only_waits_in_another_group_is_not_to_blame(tmp_path: Path) -> None:
    # 3 waits for 2 in their own group, and so is late for the group of all; 2 is elsewhere
    groups = {"0": range(4), "1": (2, 3)}
    pair = Asked(group="1", seq=1)
    dumps = {rank: dump([FIRST.waiting()], groups) for rank in (0, 1)}
    dumps |= {2: dump([pair], groups), 3: dump([pair, Asked(group="1", seq=2, done=False)], groups)}
    found = verdict(write(tmp_path, dumps))
    assert found.culprits == [2]
    assert found.waits == {0: [2, 3], 1: [2, 3], 3: [2]}


@pytest.mark.parametrize("empty", [False, True], ids=["no dump", "a dump without entries"])
def test_silence_among_waiting_peers_is_evidence(empty: bool, tmp_path: Path) -> None:
    dumps = {rank: dump([FIRST.waiting()], ALL) for rank in (0, 1, 3)}
    if empty:
        dumps[2] = dump([], ALL)
    found = verdict(write(tmp_path, dumps))
    assert found.culprits == [2]
    assert ("without entries" in found.evidence[0]) is empty


def test_a_device_that_does_not_finish_what_its_peers_have_is_stuck(tmp_path: Path) -> None:
    dumps = {rank: dump([FIRST, SECOND, Asked(seq=3, done=False)], ALL) for rank in (0, 1, 3)}
    dumps[2] = dump([FIRST, SECOND.waiting()], ALL)
    found = verdict(write(tmp_path, dumps))
    assert found.culprits == [2]
    assert "its device is stuck" in found.evidence[0]


def test_a_receiver_waits_for_its_sender_and_the_chain_leads_to_the_root(tmp_path: Path) -> None:
    def wants(me: int) -> Asked:
        return Asked(name=f"nccl:recv {me}<-{me - 1}", transfer=True, done=False)

    dumps = {rank: dump([wants(rank)], ALL) for rank in (1, 2, 3)} | {0: dump([Asked(seq=1)], ALL)}
    found = verdict(write(tmp_path, dumps))
    assert found.culprits == [0] and found.waits == {1: [0], 2: [1], 3: [2]}


@pytest.mark.parametrize(
    ("odd", "said"),
    [
        (Asked(seq=1, name="nccl:broadcast"), "broadcast of 1024 Float"),
        (Asked(seq=1, sizes=((512,),)), "all_reduce of 512 Float"),
        (Asked(seq=1, dtype="BFloat16"), "all_reduce of 1024 BFloat16"),
    ],
    ids=["order", "size", "dtype"],
)
def test_the_minority_that_asks_for_something_else_is_named(odd: Asked, said: str, tmp_path: Path) -> None:
    dumps = {rank: dump([FIRST.waiting()], ALL) for rank in (0, 2, 3)} | {1: dump([odd.waiting()], ALL)}
    found = verdict(write(tmp_path, dumps))
    assert (found.verdict, found.culprits) == ("mismatch", [1])
    assert found.evidence[0] == f"rank 1: {said}, at train_step (train.py:41)"


def test_uneven_all_to_all_is_no_mismatch(tmp_path: Path) -> None:
    dumps = {rank: dump([Asked(name="nccl:all_to_all", sizes=((100 + rank, 8),))], ALL) for rank in range(4)}
    assert verdict(write(tmp_path, dumps)).verdict == "none"


def test_all_in_one_operation_blames_nobody(tmp_path: Path) -> None:
    found = verdict(write(tmp_path, {rank: dump([FIRST, SECOND.waiting()], ALL) for rank in range(4)}))
    assert (found.verdict, found.culprits) == ("stuck_together", [])
    assert "network" in found.sentence


def test_two_groups_called_in_different_orders_are_a_circle(tmp_path: Path) -> None:
    groups = {"1": (0, 1), "2": (0, 1)}
    dumps = {0: dump([Asked(group="1", done=False)], groups), 1: dump([Asked(group="2", done=False)], groups)}
    found = verdict(write(tmp_path, dumps))
    assert (found.verdict, found.culprits) == ("hang", [0, 1]) and "circle" in found.sentence


def test_a_healthy_end_is_no_hang(tmp_path: Path) -> None:
    found = verdict(write(tmp_path, {rank: dump([FIRST, SECOND], ALL) for rank in range(4)}))
    assert (found.verdict, found.culprits) == ("none", [])


def test_a_pickle_that_calls_code_is_refused_and_the_rest_is_read(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple[object, ...]:
            return (Path.touch, (tmp_path / "touched",))

    write(tmp_path, {rank: dump([FIRST.waiting()], ALL) for rank in (0, 1, 3)})
    (tmp_path / "_dump_2").write_bytes(pickle.dumps(Evil()))
    found = gather(str(tmp_path))
    assert not (tmp_path / "touched").exists()
    assert len(found.warnings) == 1 and "more than plain values" in found.warnings[0]
    assert judge(found.dumps).culprits == [2]


@pytest.mark.parametrize(
    "content", [b"", b"{", b"\x80\x02", b"\x80\x02}q\x00.", b"[1, 2]", b'{"version": 3, "entries": 5}', b"[" * 100_000]
)
def test_what_is_no_dump_is_said_and_never_raises(content: bytes, tmp_path: Path) -> None:
    write(tmp_path, {0: dump([FIRST], ALL)})
    (tmp_path / "_dump_1").write_bytes(content)
    found = gather(str(tmp_path))
    assert [d.rank for d in found.dumps if d.operations] == [0]
    assert bool(found.warnings) is (len(found.dumps) == 1)


def test_entries_full_of_nonsense_are_read_as_far_as_they_go(tmp_path: Path) -> None:
    content = dump([FIRST], ALL)
    content["entries"] += [
        None,
        7,
        {"profiling_name": 3},
        {"profiling_name": "x", "input_sizes": "abc", "record_id": 1e400},
    ]
    content["pg_status"] = {"0": {"last_enqueued_collective": "many"}, "x": []}
    content["pg_config"]["9"] = {"ranks": "[0, 'a'"}
    assert len(gather(str(write(tmp_path, {0: content}, as_json=False))).dumps[0].operations) == 2


def test_the_command_answers_people_and_machines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, {0: dump([FIRST.waiting()], ALL), 1: dump([FIRST.waiting()], ALL), 3: dump([FIRST.waiting()], ALL)})
    assert main(["hang", str(tmp_path)]) == 1
    text = capsys.readouterr().out
    assert text.startswith("Rank 2 holds up 3 waiting ranks.") and "rank 2 left no dump" in text
    assert main(["hang", str(tmp_path), "--format", "json"]) == 1
    content = json.loads(capsys.readouterr().out)
    assert {"verdict", "culprits", "group", "last_common", "evidence", "stacks", "warnings"} <= content.keys()
    assert content["culprits"] == [2]


def test_a_rank_without_a_dump_is_missed_where_no_dump_lists_the_group_of_all(tmp_path: Path) -> None:
    found = gather(str(write(tmp_path, {0: dump([FIRST.waiting()], {}), 1: dump([FIRST.waiting()], {})})))
    assert judge(found.dumps, 3).culprits == [2]
    assert judge(found.dumps, 2).verdict == "stuck_together"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs POSIX pipes")
def test_a_pipe_in_a_manifests_place_is_not_waited_for(tmp_path: Path) -> None:
    folder = tmp_path / "ranks" / "00000-00000000"
    folder.mkdir(parents=True)
    os.mkfifo(folder / "manifest.json")
    (folder / "flight_recorder-stop.json").write_text(json.dumps(dump([FIRST.waiting()], ALL)))
    assert gather(str(tmp_path)).world_size is None


def test_a_folder_without_dumps_and_no_folder_are_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["hang", str(tmp_path)]) == 2
    assert main(["hang", str(tmp_path / "nowhere")]) == 2
    said = capsys.readouterr().err
    assert "no flight-recorder dump" in said and "is not a folder" in said and "Traceback" not in said


@pytest.mark.parametrize(("incident", "injected"), [("gpu_error_1st", [12, 14]), ("lock_gil_2nd", [10, 15])])
def test_the_injected_ranks_of_real_incidents_are_named_first(incident: str, injected: list[int]) -> None:
    found = verdict(corpus(f"flight-recorder/{incident}"))
    assert found.verdict == "hang"
    assert sorted(found.culprits[:2]) == injected


def test_real_dumps_of_a_run_that_ended_well_blame_nobody() -> None:
    assert verdict(corpus("flight-recorder/gloo-4rank")).verdict == "none"
