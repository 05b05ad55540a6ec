"""One file of several ranks: each is read by itself, and loading makes one run of them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from corpus import corpus

from rankscope.analyzers.diagnose import analyse, diagnose
from rankscope.analyzers.errors import UnreadableTrace
from rankscope.analyzers.findings import Diagnosis
from rankscope.analyzers.loading import LoadOptions, load_run
from rankscope.analyzers.loading.whole import trace_of
from rankscope.analyzers.rules import load_rules
from rankscope.analyzers.trace.readers import heads, read
from rankscope.analyzers.trace.tables import DeviceEvents

Event = dict[str, Any]


def event(phase: str, name: str, pid: int, ts: float) -> Event:
    return {"name": name, "ph": phase, "ts": ts, "pid": pid, "tid": 0, "args": {"iteration": 10}}


def ranges(pid: int, *times: tuple[str, float, float]) -> list[Event]:
    ends = [(event("B", name, pid, begin), event("E", name, pid, end)) for name, begin, end in times]
    return [event("i", "iteration begin", pid, 0), *sum(ends, ()), event("i", "iteration end", pid, 100)]


EVENTS = [
    *ranges(0, ("forward", 5, 25.5), ("backward", 60, 90)),
    *ranges(1, ("forward", 20, 34), ("recv", 34, 45), ("backward", 45, 59)),
    event("i", "reduce", 1, 95),
]


def merged(path: Path, events: list[Event]) -> Path:
    path.write_text(json.dumps(sorted(events, key=lambda e: float(e["ts"]))))
    return path


def diagnosis(path: Path, **options: Any) -> Diagnosis:
    run = load_run([str(path)], LoadOptions(**{"use_cache": False, **options}))
    return diagnose(analyse(run), load_rules())


def test_every_process_is_a_rank_and_its_ranges_are_compute(tmp_path: Path) -> None:
    path = merged(tmp_path / "pipeline.json", EVENTS)
    assert [(head.rank, Path(head.path).name, head.first_ns) for head in heads(path)] == [
        (0, "rank 0", 5_000),
        (1, "rank 1", 20_000),
    ]
    first = read(f"{path}/rank 0")
    assert first.meta.rank == 0
    assert list(zip(first[DeviceEvents].start_ns, first[DeviceEvents].dur_ns, strict=True)) == [
        (5_000, 20_500),
        (60_000, 30_000),
    ]
    with pytest.raises(UnreadableTrace, match="2 ranks"):
        read(path)


def test_loading_makes_one_run_whose_steps_add_up(tmp_path: Path) -> None:
    merged(tmp_path / "pipeline.json", EVENTS)
    found = diagnosis(tmp_path)
    assert [(file.rank, file.rank_source) for file in found.run.files] == [(0, "process id"), (1, "process id")]
    rows = [row for row in found.attribution if row.step == 10]
    assert [(row.window_ns, row.compute.kernel_ns) for row in rows] == [(100_000, 50_500), (100_000, 28_000)]
    assert all(
        row.compute_ns + row.communication_ns + row.io_ns + row.host_ns + row.idle_ns == row.window_ns for row in rows
    )
    assert any("1 event of category recv not understood" in text for text in found.warnings)
    assert any("1 event of category reduce not understood" in text for text in found.warnings)


def test_two_such_files_in_a_folder_are_two_runs(tmp_path: Path) -> None:
    merged(tmp_path / "a.json", EVENTS)
    merged(tmp_path / "b.json", EVENTS)
    found = diagnosis(tmp_path)
    assert len(found.run.files) == 2 and len(found.other_runs) == 1


def test_the_cache_keeps_ranks_of_a_file_apart(tmp_path: Path) -> None:
    path = merged(tmp_path / "pipeline.json", EVENTS)
    options = LoadOptions(cache_folder=str(tmp_path / "cache"))
    for _ in range(2):
        run = load_run([str(path)], options)
        rows = [loaded.record.meta.rank for loaded in run.ranks]
        assert rows == [0, 1] and [Path(loaded.path).name for loaded in run.ranks] == ["rank 0", "rank 1"]
        assert len(trace_of(run, [str(path)], options)(1)[DeviceEvents]) == 2


def test_ends_without_begins_and_a_cut_file_are_said(tmp_path: Path) -> None:
    path = merged(tmp_path / "pipeline.json", [*EVENTS, event("E", "forward", 0, 99), event("B", "backward", 0, 99.5)])
    assert "2 begins or ends without the other were left out" in read(f"{path}/rank 0").meta.warnings
    path.write_text(path.read_text()[:-200])
    assert read(f"{path}/rank 0").meta.truncated


def test_processes_that_can_be_no_ranks_are_counted(tmp_path: Path) -> None:
    path = merged(tmp_path / "pipeline.json", [*EVENTS, *ranges(40_000, ("forward", 1, 2))])
    assert [head.rank for head in heads(path)] == [0, 1]
    assert "4 entries of no rank below 1024 were left out" in read(f"{path}/rank 1").meta.warnings


def test_threads_that_are_no_numbers_pair_their_own_ends(tmp_path: Path) -> None:
    odd = [{**entry, "tid": tid} for tid in ([1], "main") for entry in ranges(0, ("forward", 5, 25))]
    path = tmp_path / "pipeline.json"
    path.write_text(json.dumps(odd))
    assert read(f"{path}/rank 0")[DeviceEvents].dur_ns.tolist() == [20_000, 20_000]


def test_other_timelines_of_begins_and_ends_are_refused(tmp_path: Path) -> None:
    path = merged(tmp_path / "other.json", [event("B", "boot", 0, 1), event("E", "boot", 0, 2)])
    with pytest.raises(UnreadableTrace, match="no ranges called forward or backward"):
        read(path)


def whole(name: str, pid: int | str, ts: float, dur: float, **more: Any) -> Event:
    return {"ph": "X", "name": name, "pid": pid, "tid": 0, "ts": ts, "dur": dur} | more


def test_ranges_may_be_whole_events(tmp_path: Path) -> None:
    events = [whole("forward", pid, 5 + pid, 20) for pid in (0, 1)]
    path = merged(tmp_path / "pipeline.json", [*events, whole("recv", 1, 30, 4)])
    assert [(head.rank, head.first_ns) for head in heads(path)] == [(0, 5_000), (1, 6_000)]
    second = read(f"{path}/rank 1")
    assert second[DeviceEvents].dur_ns.tolist() == [20_000]
    assert second.meta.unknown_categories == {"recv": 1} and not second.meta.knows_launches


def named(name: str, pid: int) -> Event:
    return {"ph": "M", "name": "process_name", "pid": pid, "ts": 0, "args": {"name": name}}


def kineto(host: int | str, device: int | str, late: float) -> list[Event]:
    """A step of one rank in Kineto's words: an operator, its launch, its kernel."""
    return [
        whole("ProfilerStep#3", host, 0, 100, cat="user_annotation"),
        whole("aten::mm", host, 10, 5, cat="cpu_op"),
        whole("cudaLaunchKernel", host, 11, 2, cat="cuda_runtime", args={"correlation": 7}),
        whole("gemm", device, 20 + late, 30, cat="kernel", args={"device": 0, "stream": 7, "correlation": 7}),
    ]


def test_processes_named_by_rank_hold_kinetos_events(tmp_path: Path) -> None:
    """As scripts write them that put the files of all ranks into one: host and device are processes of one name."""
    names = [
        named("rank 0: python", 500),
        named("rank 0: GPU 0", 501),
        named("Rank1 python", 600),
        named("Rank1 GPU", 601),
    ]
    path = tmp_path / "all.json"
    path.write_text(
        json.dumps({"traceEvents": [*names, *kineto(500, 501, 0), *kineto(600, 601, 9), whole("x", 9, 0, 1)]})
    )
    assert [head.rank for head in heads(path)] == [0, 1]
    second = read(f"{path}/rank 1")
    assert second[DeviceEvents].start_ns.tolist() == [29_000] and second.meta.knows_launches
    assert second.meta.warnings == ("1 entries of no rank below 1024 were left out",)
    found = diagnosis(path)
    rows = [(row.rank, row.step, row.compute.kernel_ns) for row in found.attribution if row.step == 3]
    assert rows == [(0, 3, 30_000), (1, 3, 30_000)]


def test_a_process_may_be_named_by_its_id(tmp_path: Path) -> None:
    names = [named("rank 4", 1), named("rank 5", 2)]
    path = merged(
        tmp_path / "all.json", [*names, *kineto("rank 4", "rank 4 gpu", 0), *kineto("rank 5", "rank 5 gpu", 0)]
    )
    assert [head.rank for head in heads(path)] == [4, 5]


def test_the_rank_may_be_an_argument_of_every_event(tmp_path: Path) -> None:
    """As TraceFusion writes it: processes and correlations of a rank are shifted out of the way of the others."""
    events = []
    for rank in (0, 1):
        for event in kineto(500 + 1000 * rank, 1000 * rank, 9 * rank):
            arguments = {**event.get("args", {}), "rank": rank, "pid_raw": event["pid"] - 1000 * rank}
            events.append({**event, "args": arguments})
    path = tmp_path / "merged_trace.json"
    path.write_text(json.dumps({"traceEvents": events}, indent=4))
    assert [head.rank for head in heads(path)] == [0, 1]
    assert [read(f"{path}/rank {rank}")[DeviceEvents].start_ns.tolist() for rank in (0, 1)] == [[20_000], [29_000]]


def test_a_file_of_one_rank_is_not_taken_for_a_merged_one(tmp_path: Path) -> None:
    """A process may be called after its rank, and an annotation may name another."""
    path = tmp_path / "trace.json"
    names = [named("trainer rank 3", 500), named("trainer rank 3", 0)]
    path.write_text(json.dumps({"traceEvents": [*names, *kineto(500, 0, 0), whole("send to rank 4", 500, 1, 1)]}))
    assert [head.rank for head in heads(path)] == [None]
    assert len(read(path)[DeviceEvents]) == 1


def test_ranks_that_nobody_names_count_as_one_and_it_is_said(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": [*kineto(0, 0, 0), *kineto(1, 1, 9)]}))
    assert len(heads(path)) == 1
    (warning,) = read(path).meta.warnings
    assert "2 processes run operators and call a device" in warning and "here they count as one" in warning
    path.write_text(json.dumps({"traceEvents": kineto(500, 0, 0)}))
    assert read(path).meta.warnings == ()


def test_corpus_pipeline_is_four_ranks_of_one_iteration() -> None:
    """Windows and compute are the file's own: marks at the ends, and the sum of all ranges."""
    found = diagnosis(corpus("megatronapp-pp4/pipeline-4.json.gz"))
    assert [file.rank for file in found.run.files] == [0, 1, 2, 3]
    rows = [row for row in found.attribution if row.step == 10]
    assert rows[0].window_ns == 712_708_000 and rows[1].window_ns == 712_704_000
    assert [row.compute.kernel_ns for row in rows] == [336_122_000, 321_831_000, 326_826_000, 537_076_000]


def test_corpus_ranks_in_one_file_are_what_they_are_in_files_of_their_own(tmp_path: Path) -> None:
    folder = corpus("kineto-torchrec-4rank/late-rank")
    events = []
    for path in folder.iterdir():
        document = json.loads(gzip.decompress(path.read_bytes()))
        rank = document["distributedInfo"]["rank"]
        for event in document["traceEvents"]:
            arguments = {**event.get("args", {}), "rank": rank, "pid_raw": event["pid"]}
            if "correlation" in arguments:
                arguments["correlation"] += rank * 10**8
            pid = event["pid"] + rank * 10**8 if isinstance(event["pid"], int) else event["pid"]
            if event.get("cat") != "Trace":
                events.append({**event, "pid": pid, "args": arguments})
    (tmp_path / "merged.json").write_text(json.dumps({"traceEvents": events}))
    one, many = diagnosis(tmp_path / "merged.json"), diagnosis(folder)
    assert (one.verdict, one.attribution, one.collectives) == (many.verdict, many.attribution, many.collectives)
