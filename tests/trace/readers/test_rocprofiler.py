"""rocprofiler-sdk's JSON: numbers that stand for names, processors and operations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from corpus import corpus
from runs import diagnosed

from rankscope.analyzers.errors import UnreadableTrace
from rankscope.analyzers.one_rank import kernel_kind
from rankscope.analyzers.one_rank.hygiene import set_aside
from rankscope.analyzers.one_rank.launches import device_work
from rankscope.analyzers.trace.readers import head, read
from rankscope.analyzers.trace.tables import DeviceEvents, RuntimeCalls

CPU, FIRST, SECOND = 500, 600, 601  # handles of agents
BEGIN = 63_857_982_592_000  # ns


def record(kind: int, operation: int, at: int, dur: int, correlation: int, **more: Any) -> dict[str, Any]:
    return {
        "kind": kind,
        "operation": operation,
        "thread_id": 41,
        "correlation_id": {"internal": correlation, "external": 0},
        "start_timestamp": BEGIN + at,
        "end_timestamp": BEGIN + at + dur,
        **more,
    }


def dispatch(kernel: int, agent: int, at: int, dur: int, correlation: int, **more: Any) -> dict[str, Any]:
    where = {"agent_id": {"handle": agent}, "queue_id": {"handle": 16}, "kernel_id": kernel, "grid_size": {"x": 1}}
    return record(1, 0, at, dur, correlation, dispatch_info=where, **more)


def copy(source: int, to: int, at: int, correlation: int) -> dict[str, Any]:
    ends = {"src_agent_id": {"handle": source}, "dst_agent_id": {"handle": to}}
    return record(2, 0, at, 100, correlation, bytes=4096, stream_id={"handle": 3}, **ends)


SESSION: dict[str, Any] = {
    "metadata": {"pid": 40, "init_time": BEGIN - 5, "node": {"hostname": "node-1"}},
    "agents": [
        {"id": {"handle": CPU}, "type": 1, "logical_node_type_id": 0, "product_name": "a CPU"},
        {"id": {"handle": FIRST}, "type": 2, "logical_node_type_id": 0, "product_name": "a GPU"},
        {"id": {"handle": SECOND}, "type": 2, "logical_node_type_id": 1, "product_name": "a GPU"},
    ],
    "strings": {"buffer_records": [{"kind": "HIP_RUNTIME_API", "operations": ["hipFree", "hipLaunchKernel"]}]},
    "kernel_symbols": [
        {"kernel_id": 7, "kernel_name": "_Z4gemm.kd", "formatted_kernel_name": "gemm"},
        {"kernel_id": 8, "kernel_name": "ncclDevKernel_Generic.kd", "formatted_kernel_name": ""},
    ],
    "callback_records": {"counter_collection": [{"anything": 1}]},
    "buffer_records": {
        "kernel_dispatch": [
            dispatch(7, FIRST, 1_000, 501, 1, stream_id={"handle": 9}),
            dispatch(8, SECOND, 2_000, 700, 2),
            dispatch(9, FIRST, 4_000, -1, 3),
        ],
        "memory_copy": [copy(CPU, FIRST, 5_000, 4), copy(SECOND, CPU, 6_000, 0), copy(FIRST, SECOND, 7_000, 6)],
        "hip_api": [record(0, 1, 900, 50, 1), record(0, 77, 950, 5, 5)],
        "marker_api": [{"what": "ever"}, {"form": "it has"}],
        "rccl_api": [],
    },
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "40_results.json"
    file.write_text(json.dumps({"rocprofiler-sdk-tool": [SESSION]}))
    return file


def test_kernels_and_copies_are_named_placed_and_of_their_kind(path: Path) -> None:
    trace = read(path)
    seen = {
        (trace.names[work.name_id[i]], work.device, int(work.stream[i]), kernel_kind.KIND_NAMES[work.kind[i]])
        for work in device_work(trace, set_aside(trace))
        for i in range(len(work))
    }
    assert seen == {
        ("gemm", 0, 9, "compute"),
        ("ncclDevKernel_Generic.kd", 1, 16, "communication"),
        ("Memcpy HtoD", 0, 3, "host_to_device"),
        ("Memcpy DtoH", 1, 3, "device_to_host"),
        ("Memcpy DtoD", 1, 3, "communication"),  # between two GPUs
    }
    events = trace[DeviceEvents]
    assert events.start_ns[0] == BEGIN + 1_000 and events.dur_ns[0] == 501
    assert events.valid("bytes").tolist() == [False, False, True, True, True] and set(events.bytes[2:]) == {4096}


def test_calls_are_named_and_join_what_they_started(path: Path) -> None:
    trace = read(path)
    calls = trace[RuntimeCalls]
    assert [trace.names[i] for i in calls.name_id] == ["hipLaunchKernel", "HIP call 0.77"]
    assert (calls.pid.tolist(), calls.tid.tolist()) == ([40, 40], [41, 41])
    launched = {
        trace.names[w.name_id[i]] for w in device_work(trace, set_aside(trace)) for i in range(len(w)) if w.launched[i]
    }
    assert launched == {"gemm"}


def test_what_has_no_place_or_no_possible_time_is_counted(path: Path) -> None:
    meta = read(path).meta
    assert meta.unknown_categories == {"marker_api": 2, "counter_collection": 1}
    assert meta.skipped_events == 1 and "1 records with impossible times were left out" in meta.warnings
    assert any("2 events of category marker_api not understood" in text for text in diagnosed([path]).warnings)


def test_a_second_process_in_the_file_is_said(path: Path) -> None:
    path.write_text(json.dumps({"rocprofiler-sdk-tool": [SESSION, SESSION]}))
    assert "holds 2 processes: only the first was read" in read(path).meta.warnings


def test_its_head_is_the_process(path: Path) -> None:
    first = head(path)
    assert (first.host, first.pid, first.first_ns, first.rank) == ("node-1", 40, BEGIN - 5, None)


def test_corpus_is_whole_and_to_the_nanosecond() -> None:
    """The figures are sums over the file's own records."""
    trace = read(corpus("rocprof/908_results.json.gz"))
    (work,) = device_work(trace, set_aside(trace))
    communication = work.kind == kernel_kind.COMMUNICATION
    assert (len(work), work.device, int(communication.sum())) == (43_915, 0, 1_310)
    assert int((work.end - work.start)[communication].sum()) == 4_158_756_678
    assert int(work.end.max() - work.start.min()) == 15_122_023_494
    assert trace.meta.devices[0] == (0, "AMD Instinct MI350X") and trace.meta.unknown_categories == {}


def test_numbers_beyond_64_bits_are_refused_in_words(path: Path) -> None:
    call = {**record(0, 1, 900, 50, 1), "thread_id": 10**20}
    path.write_text(json.dumps({"rocprofiler-sdk-tool": [{**SESSION, "buffer_records": {"hip_api": [call]}}]}))
    with pytest.raises(UnreadableTrace, match="form that is not known"):
        read(path)
