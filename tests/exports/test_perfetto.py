"""The Perfetto export: a valid Chrome trace, every event on a track of its own kind, sums that are the report's."""

from __future__ import annotations

import io
import json
from collections import defaultdict
from typing import Any

import pytest
from corpus import corpus
from exports.made import LATE, MS, simulated

import rankscope
from rankscope.analyzers.one_rank.hygiene import set_aside
from rankscope.analyzers.one_rank.launches import launches
from rankscope.analyzers.results.rows import PARENTS
from rankscope.analyzers.trace.tables import DeviceEvents
from rankscope.reports.buckets import BUCKETS
from rankscope.reports.exports import perfetto, trace_events
from rankscope.reports.exports.perfetto import Written
from rankscope.run import Run


def exported(run: Run) -> tuple[dict[str, Any], Written]:
    file = io.BytesIO()
    written = perfetto.write(run.source(), file)
    return json.loads(file.getvalue(), parse_float=nanoseconds), written


def nanoseconds(microseconds: str) -> int:
    whole, _, part = microseconds.partition(".")
    assert len(part) == 3
    return int(whole + part)


def tracks(document: dict[str, Any]) -> dict[tuple[int, str], list[dict[str, Any]]]:
    """Slices by rank and name of their track, in order of time."""
    names = {
        (e["pid"], e["tid"]): e["args"]["name"]
        for e in document["traceEvents"]
        if e["name"] == "thread_name" and e["ph"] == "M"
    }
    found = defaultdict(list)
    for event in document["traceEvents"]:
        if event["ph"] == "X":
            found[event["pid"] - 1, names[event["pid"], event["tid"]]].append(event)
    assert len(set(names.values())) > 3 and len(names) == len({(pid, name) for (pid, _), name in names.items()})
    return {key: sorted(events, key=lambda e: (e["ts"], -e["dur"])) for key, events in found.items()}


def test_the_document_is_a_chrome_trace() -> None:
    document, written = exported(simulated())
    assert set(document) == {"traceEvents", "displayTimeUnit", "otherData"} and document["displayTimeUnit"] == "ns"
    processes = [e["args"]["name"] for e in document["traceEvents"] if e["name"] == "process_name"]
    assert processes == ["rank 0, node0", "rank 1, node0", "rank 2, node1", "rank 3, node1"]
    for event in document["traceEvents"]:
        assert event["ph"] in ("X", "M", "s", "f") and event["pid"] > 0
        if event["ph"] == "X":
            assert event["tid"] > 0 and isinstance(event["ts"], int) and event["ts"] >= 0 and event["dur"] >= 0
    assert document["otherData"]["events"] == written.events > 0


RUNS = [
    "simulated",
    "gloo-4rank/fsdp_slow_rank",
    "tracelens/eager_trace.json.gz",
    "tracelens/resnet_act_checkpoint.json.gz",
]


@pytest.mark.parametrize("name", RUNS)
def test_on_one_track_slices_lie_apart_or_inside_each_other(name: str) -> None:
    run = simulated() if name == "simulated" else rankscope.load(corpus(name), cache=False, jobs=1)
    for events in tracks(exported(run)[0]).values():
        ends: list[int] = []
        for event in events:
            while ends and ends[-1] <= event["ts"]:
                ends.pop()
            assert not ends or (event["ts"] + event["dur"] <= ends[-1] and event["cat"] in ("host", "other"))
            ends.append(event["ts"] + event["dur"])


@pytest.mark.parametrize("name", RUNS)
def test_every_recorded_event_is_drawn_or_counted(name: str) -> None:
    run = simulated() if name == "simulated" else rankscope.load(corpus(name), cache=False, jobs=1)
    document, written = exported(run)
    recorded = sum(
        len(table) for _, trace in run.traces() for table in trace.tables.values() if "dur_ns" in table.declared
    )
    drawn = [e for e in document["traceEvents"] if e.get("cat") in ("host", "device", "other") and e["ph"] == "X"]
    assert len(drawn) == written.events == recorded - written.set_aside
    if "eager" in name:
        assert written.beside > 0


TOTALS = [
    "simulated",
    "gloo-4rank/fsdp_slow_rank",
    "kineto-torchrec-4rank/late-rank",
    "kineto-dlrm-8rank",
    "megatronapp-pp4/pipeline-4.json.gz",
    "ascend-npu/trace_view.json",
]


@pytest.mark.parametrize("name", TOTALS)
def test_buckets_add_up_to_the_report_in_every_window(name: str) -> None:
    run = simulated() if name == "simulated" else rankscope.load(corpus(name), cache=False, jobs=1)
    found = tracks(exported(run)[0])
    for rank in run.ranks:
        windows = {e["name"]: (e["ts"], e["ts"] + e["dur"]) for e in found[rank, "steps"]}
        for row in (
            row for row in run.diagnose().attribution if row.rank == rank and row.step is not None and row.window_ns
        ):
            begin, end = windows[f"step {row.step}" if isinstance(row.step, int) else row.step]
            sums = defaultdict(int)
            for event in found[rank, "where the time went"]:
                sums[event["args"]["bucket"]] += max(min(event["ts"] + event["dur"], end) - max(event["ts"], begin), 0)
            assert {b.key: sums[b.key] for b in BUCKETS} == {b.key: b.ns(row) for b in BUCKETS}
            assert sum(sums.values()) == end - begin == sum(getattr(row, parent) for parent in PARENTS)


def test_ranks_of_two_hosts_leave_a_collective_together() -> None:
    found = tracks(exported(simulated())[0])
    waits = [event for (rank, name), events in found.items() if name == "waits" and rank != LATE for event in events]
    assert waits and all(f"waits for rank {LATE}" in event["name"] for event in waits[-3:])
    by_end = defaultdict(set)
    for (rank, name), events in found.items():
        if name == "waits":
            for event in events:
                by_end[round((event["ts"] + event["dur"]) / (0.2 * MS))].add(rank)
    assert sum({0, 1, 3} <= ranks for ranks in by_end.values()) >= 9  # in each step the three wait until one instant


@pytest.mark.parametrize("name", TOTALS[:4])
def test_waits_are_those_of_the_groups(name: str) -> None:
    run = simulated() if name == "simulated" else rankscope.load(corpus(name), cache=False, jobs=1)
    found = tracks(exported(run)[0])
    drawn = sum(e["args"]["ns"] for (_, name), events in found.items() if name.startswith("waits") for e in events)
    assert drawn == sum(group.wait_ns for group in run.diagnose().collectives.by_group)


def test_findings_lie_over_their_steps_on_the_ranks_they_name() -> None:
    run = simulated()
    found = tracks(exported(run)[0])
    (finding,) = [f for f in run.diagnose().findings if f.rule == "straggler-rank"]
    drawn = {
        rank: [e for e in events if e["name"] == finding.rule]
        for (rank, name), events in found.items()
        if name.startswith("findings")
    }
    assert len(drawn[LATE]) == len(finding.steps) and not any(events for rank, events in drawn.items() if rank != LATE)
    assert drawn[LATE][0]["args"]["problem"] == finding.message


LAUNCHING = ["simulated", "tracelens/train_resnet18.json.gz", "kineto-torchrec-4rank/late-rank", "kineto-dlrm-8rank"]


@pytest.mark.parametrize("name", LAUNCHING)
def test_arrows_begin_in_a_call_and_end_at_what_it_launched(name: str) -> None:
    run = simulated() if name == "simulated" else rankscope.load(corpus(name), cache=False, jobs=1)
    document, written = exported(run)
    slices = defaultdict(set)
    for event in document["traceEvents"]:
        if event["ph"] == "X":
            slices[event["pid"], event["tid"], event["ts"]].add(event["cat"])
    ends = {kind: [e for e in document["traceEvents"] if e["ph"] == kind] for kind in "sf"}
    ids = {kind: [e["id"] for e in events] for kind, events in ends.items()}
    assert ids["s"] == ids["f"] == list(range(1, len(ids["s"]) + 1)) and len(ids["s"]) > 100
    for begin, end in zip(ends["s"], ends["f"], strict=True):
        assert begin["ts"] <= end["ts"] and end["bp"] == "e" and begin["pid"] == end["pid"]
        assert "host" in slices[begin["pid"], begin["tid"], begin["ts"]]
        assert "device" in slices[end["pid"], end["tid"], end["ts"]]
    launched = sum(
        int(launches(trace, set_aside(trace)).launched[set_aside(trace).kept(DeviceEvents)].sum())
        for _, trace in run.traces()
    )
    assert len(ids["s"]) + written.backwards == launched
    assert (written.backwards > 0) == ("late-rank" in name)  # its clocks of host and device disagree by microseconds


def test_steps_asked_for_are_all_that_is_written() -> None:
    whole = simulated()
    run = Run(type(whole.analysis)(whole.analysis.run, [5]), whole.options, whole.read)
    found = tracks(exported(run)[0])
    for rank in run.ranks:
        assert [e["name"] for e in found[rank, "steps"]] == ["step 5"]
        window = found[rank, "steps"][0]
        for event in found[rank, "where the time went"]:
            assert window["ts"] <= event["ts"] and event["ts"] + event["dur"] <= window["ts"] + window["dur"]
    assert exported(run)[1].events < exported(whole)[1].events / 4


def test_names_from_traces_cannot_end_their_text() -> None:
    file = io.BytesIO()
    events = trace_events.TraceEvents(file)
    events.slice(1, 1, trace_events.text('"}],"x":[{ \u2028 \ud800 </script>'), 0, 1, "host")
    events.close({})
    (event,) = json.loads(file.getvalue())["traceEvents"]
    assert event["name"] == '"}],"x":[{ \u2028 \ud800 </script>' and file.getvalue().isascii()


@pytest.mark.parametrize(
    ("ns", "written"), [(0, "0.000"), (1, "0.001"), (1_234_567, "1234.567"), (-1, "-0.001"), (-2_500, "-2.500")]
)
def test_nanoseconds_are_written_with_all_digits(ns: int, written: str) -> None:
    assert trace_events.microseconds(ns) == written


def test_memory_does_not_grow_with_what_is_written() -> None:
    class Counting(io.RawIOBase):
        largest = 0

        def write(self, data: Any) -> int:
            self.largest = max(self.largest, len(data))
            return len(data)

    file = Counting()
    events = trace_events.TraceEvents(file)  # type: ignore[arg-type]
    for at in range(50_000):
        events.slice(1, 1, '"kernel"', at, 1, "device")
    events.close({})
    assert 0 < file.largest < 1_000_000
