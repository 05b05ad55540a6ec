"""torch_npu's trace: what a process is is said by its name, times are text, launches are arrows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from corpus import corpus
from runs import diagnosed

from rankscope.analyzers.one_rank import kernel_kind
from rankscope.analyzers.one_rank.hygiene import set_aside
from rankscope.analyzers.one_rank.launches import DeviceWork, device_work
from rankscope.analyzers.trace.model import Trace
from rankscope.analyzers.trace.readers import head, read
from rankscope.analyzers.trace.tables import DeviceEvents, HostEvents, RuntimeCalls

PYTHON, CANN, NPU, HCCL, OVERLAP, MEMORY = 70, 71, 800, 900, 1000, 1100
BEGIN = 1_704_161_511_420_306  # us


def named(pid: int, process: str, **threads: int) -> list[dict[str, Any]]:
    names = [{"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": process}}]
    return names + [
        {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": name.replace("_", " ")}}
        for name, tid in threads.items()
    ]


def timed(pid: int, tid: int, name: str, at_ns: int, dur_us: float, **more: Any) -> dict[str, Any]:
    ts = f"{BEGIN + at_ns // 1000}.{at_ns % 1000:03}"
    return {"ph": "X", "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur_us, **more}


def launch(connection: int, at_ns: int) -> dict[str, Any]:
    arrow = {"id": str((connection << 32) + 2**32 - 1), "cat": "HostToDevice", "ph": "s"}
    return {**timed(CANN, 5, "HostToDevice", at_ns, 0), **arrow}


EVENTS = [
    timed(PYTHON, 4, "aten::mm", 1, 9.5, cat="cpu_op"),
    timed(PYTHON, 5, "Dequeue@aclnnMm", 2_000, 3, cat="dequeue"),
    timed(CANN, 5, "AscendCL@aclrtSynchronizeStream", 30_000, 12.5, args={"connection_id": 7}),
    launch(0, 2_500),
    launch(8, 3_000),
    timed(NPU, 3, "aclnnMm_MatMulV2", 4_491, 2.125, args={"connection_id": 0}),
    timed(NPU, 3, "MEMCPY_ASYNC", 8_000, 1, args={"connection_id": -1}),
    timed(NPU, 3, "EVENT_WAIT", 9_000, 50, args={"connection_id": 4294967295}),
    timed(NPU, 4, "aclnnAdd", 10_000, 2, args={"connection_id": 8}),
    timed(HCCL, 2, "hcom_allReduce__445_0", 12_000, 6),
    timed(HCCL, 3, "Notify_Wait", 12_000, 4),
    timed(OVERLAP, 0, "Computing", 4_491, 2.125),
    timed(MEMORY, 0, "HBM read", 4_491, 2.125),
    *named(PYTHON, "Python"),
    *named(CANN, "CANN"),
    *named(NPU, "Ascend Hardware"),
    *named(HCCL, "HCCL", Group_1_Communication=2, Plane_0=3),
    *named(OVERLAP, "Overlap Analysis"),
    *named(MEMORY, "NPU MEM"),
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "trace_view.json"
    file.write_text(json.dumps(EVENTS))
    return file


def work(trace: Trace) -> DeviceWork:
    (of_device,) = device_work(trace, set_aside(trace))
    return of_device


def test_tasks_copies_and_whole_collectives_are_work_and_waiting_and_parts_are_not(path: Path) -> None:
    trace = read(path)
    found = work(trace)
    names = [trace.names[i] for i in found.name_id]
    kinds = [kernel_kind.KIND_NAMES[k] for k in found.kind]
    assert list(zip(names, kinds, strict=True)) == [
        ("aclnnMm_MatMulV2", "compute"),
        ("MEMCPY_ASYNC", "device_copy"),
        ("aclnnAdd", "compute"),
        ("hcom_allReduce__445_0", "communication"),
    ]
    assert found.start[0] == BEGIN * 1000 + 4_491 and found.end[0] - found.start[0] == 2_125
    assert len(set(found.stream.tolist())) == 3 and found.device == 0


def test_the_arrow_to_a_task_is_its_launch(path: Path) -> None:
    found = work(read(path))
    assert found.launched.tolist() == [True, False, True, False]
    assert (found.launch_ns[[0, 2]] - BEGIN * 1000).tolist() == [2_500, 3_000]
    assert found.launch_tid[0] == 5


def test_runtime_calls_are_of_the_host_process_under_their_own_names(path: Path) -> None:
    trace = read(path)
    calls = trace[RuntimeCalls]
    assert [trace.names[i] for i in calls.name_id] == ["aclrtSynchronizeStream", "launch", "launch"]
    assert set(calls.pid.tolist()) == {PYTHON}
    assert [trace.names[i] for i in trace[HostEvents].name_id] == ["aten::mm", "Dequeue@aclnnMm"]


def test_a_process_of_unknown_meaning_is_said(path: Path) -> None:
    assert read(path).meta.unknown_categories == {"NPU MEM": 1}
    assert any("1 event of category NPU MEM not understood" in text for text in diagnosed([path]).warnings)


def test_its_head_says_when_it_begins_and_which_process_it_is_of(path: Path) -> None:
    first = head(path)
    assert (first.first_ns, first.pid, first.base_ns, first.rank) == (BEGIN * 1000 + 1, PYTHON, 0, None)


def test_damaged_text_is_read_as_far_as_it_goes(path: Path) -> None:
    text = path.read_text()
    path.write_text(text[: text.index('{"ph": "M"')])
    trace = read(path)
    assert trace.meta.truncated and DeviceEvents not in trace
    assert trace.meta.unknown_categories[""] == 9  # without the names of processes nobody knows what these are


def test_corpus_agrees_with_what_the_file_itself_says_of_compute_and_idle() -> None:
    """The projection `Overlap Analysis` in the file is that vendor's own answer."""
    file = corpus("ascend-npu/trace_view.json")
    said: dict[str, float] = {"Computing": 0.0, "Free": 0.0}
    for event in json.loads(file.read_text()):
        if event["ph"] == "X" and event["name"] in said and "cat" not in event:
            said[event["name"]] += round(event["dur"] * 1000)
    found = work(read(file))
    kernels = found.kind == kernel_kind.COMPUTE
    assert int((found.end - found.start)[kernels].sum()) == pytest.approx(said["Computing"], abs=50)
    gaps = np.maximum(found.start[kernels][1:] - found.end[kernels][:-1], 0).sum()
    assert int(gaps) == pytest.approx(said["Free"], abs=50)
    assert int(found.launched.sum()) == 274 and int((~found.launched).sum()) == 2
    # by the file's own times some tasks begin up to 20 us before they are launched: the report must say so
    late = int((found.launch_ns > found.start)[found.launched].sum())
    assert late > 0 and any(
        f"{late} device events begin before the launch" in text for text in diagnosed([file]).warnings
    )
