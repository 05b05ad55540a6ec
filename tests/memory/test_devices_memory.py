"""Memory of devices from hand-made events, series and snapshots."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from rankscope.analyzers.errors import UnreadableTrace
from rankscope.analyzers.memory.creep import creep
from rankscope.analyzers.memory.held import DeviceMemory, held
from rankscope.analyzers.memory.snapshot import snapshot
from rankscope.analyzers.trace.readers import kineto
from rankscope.ui import cli
from tests.kineto_file import BASE_NS
from tests.kineto_file import trace as made_trace

MB = 1_000_000


def event(at_us: float, change: int, **totals: int) -> dict[str, Any]:
    """A memory event of the first CUDA device."""
    args = {"Device Type": 1, "Device Id": 0, "Bytes": change} | {k.replace("_", " "): v for k, v in totals.items()}
    head = {"ph": "i", "s": "t", "cat": "cpu_instant_event", "name": "[memory]", "pid": 4000, "tid": 4000}
    return head | {"ts": at_us, "args": args}


def written(path: Path, events: list[dict[str, Any]], **more: Any) -> Path:
    """Three steps of 1 ms, each with an `aten::mm` from 10 to 60 us, and these memory events."""
    content = made_trace(0, 1, base_ns=BASE_NS) | more
    content["traceEvents"] += events
    path.write_text(json.dumps(content))
    return path


def only(path: Path) -> DeviceMemory:
    (device,) = held(kineto.read(str(path)), 0)
    return device


def test_the_peak_has_its_step_its_operator_and_its_waste(tmp_path: Path) -> None:
    events = [
        event(5, 100, Total_Allocated=100, Total_Reserved=400),
        event(1020, 200, Total_Allocated=300, Total_Reserved=400),
        event(1500, -250, Total_Allocated=50, Total_Reserved=400),
    ]
    device = only(written(tmp_path / "rank0.json", events))
    assert (device.basis, device.peak_bytes, device.peak_step, device.peak_operator) == ("totals", 300, 1, "aten::mm")
    assert device.step_peaks_bytes == [(0, 100), (1, 300), (2, 50)]
    assert device.fragmentation is not None and device.fragmentation.share == 0.25
    assert device.limit_bytes is None and "limit_bytes" in device.reasons


def test_without_totals_the_sum_is_a_lower_bound_that_never_falls_below_zero(tmp_path: Path) -> None:
    device = only(written(tmp_path / "rank0.json", [event(5, 30), event(1020, -80), event(1500, 60)]))
    assert (device.basis, device.peak_bytes) == ("lower_bound", 80)  # 50 were there before: 80, 0, 60
    assert device.fragmentation is None and "reserved" in device.reasons["fragmentation"]


def rising(steps: int, by: int) -> list[tuple[int, int]]:
    return [(step, 100 * MB + by * step) for step in range(steps)]


def test_growth_in_every_step_creeps_and_says_when_the_device_is_full() -> None:
    found = creep(rising(15, MB), 164 * MB)
    assert (found.verdict, found.bytes_per_step, found.grown_bytes) == ("creeps", MB, 13 * MB)
    assert found.p_value == 1 / 128 and found.steps_to_oom == 50  # 114 MB are held at the end


def test_one_step_less_is_too_few_to_tell() -> None:
    found = creep(rising(14, MB), 164 * MB)
    assert found.verdict == "unknown" and found.bytes_per_step is None and found.reason is not None


def test_six_rises_of_seven_are_chance() -> None:
    peaks = rising(15, MB)
    peaks[-1] = (14, 90 * MB)
    assert creep(peaks, None).verdict == "steady"


def test_growth_that_ends_is_no_creep() -> None:
    peaks = [(step, 100 * MB + MB * min(step, 8)) for step in range(40)]
    assert creep(peaks, None).verdict == "steady"


def test_an_unknown_limit_gives_no_forecast_but_a_reason() -> None:
    found = creep(rising(15, MB), None)
    assert found.steps_to_oom is None and found.steps_to_oom_reason is not None


def frame(name: str, filename: str = "train.py") -> list[dict[str, Any]]:
    inner = {"name": "empty", "filename": "/site-packages/torch/nn/linear.py", "line": 1}
    return [inner, {"name": name, "filename": filename, "line": 7}]


def dump(path: Path, content: object) -> str:
    path.write_bytes(pickle.dumps(content))
    return str(path)


def snapshot_of(history: list[dict[str, Any]]) -> dict[str, Any]:
    blocks = [
        {"address": 10, "size": 60, "state": "active_allocated", "frames": frame("weights")},
        {"address": 70, "size": 40, "state": "inactive", "frames": []},
    ]
    segment = {"device": 0, "total_size": 100, "is_expandable": False, "blocks": blocks}
    return {"segments": [segment], "device_traces": [history]}


def test_a_snapshot_is_played_backwards_to_its_peak(tmp_path: Path) -> None:
    history: list[dict[str, Any]] = [
        {"action": "segment_alloc", "addr": 10, "size": 100},
        {"action": "alloc", "addr": 10, "size": 60, "frames": frame("weights")},
        {"action": "alloc", "addr": 70, "size": 30, "frames": frame("forward")},
        {"action": "free_completed", "addr": 70, "size": 30, "frames": frame("forward")},
        {"action": "oom", "addr": 0, "size": 500, "device_free": 3},
    ]
    (device,) = snapshot(dump(tmp_path / "snapshot.pickle", snapshot_of(history)))
    assert (device.allocated_bytes, device.reserved_bytes, device.fragmentation_share) == (60, 100, 0.4)
    assert (device.peak_bytes, device.ooms, device.largest_free_bytes) == (90, 1, 40)
    assert device.peak_by_frame is not None
    assert [(part.name, part.bytes) for part in device.peak_by_frame] == [
        ("weights (train.py:7)", 60), ("forward (train.py:7)", 30),
    ]  # fmt: skip


def test_a_snapshot_without_history_has_no_peak_but_a_reason(tmp_path: Path) -> None:
    (device,) = snapshot(dump(tmp_path / "snapshot.pickle", snapshot_of([])))
    assert (device.peak_bytes, device.ooms, device.retries) == (None, None, None)
    assert "_record_memory_history" in device.reasons["peak_bytes"]


@pytest.mark.parametrize("content", [Path("x"), {"entries": []}, [1]], ids=["code", "another dump", "a list"])
def test_a_pickle_that_is_no_snapshot_is_refused(content: object, tmp_path: Path) -> None:
    with pytest.raises(UnreadableTrace):
        snapshot(dump(tmp_path / "snapshot.pickle", content))


def test_the_command_reads_traces_and_snapshots_beside_each_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written(tmp_path / "rank0.pt.trace.json", [event(5, 100, Total_Allocated=100, Total_Reserved=400)])
    dump(tmp_path / "memory-oom-3.pickle", snapshot_of([]))
    (tmp_path / "memory-bad.pickle").write_bytes(b"\x80\x04")
    assert cli.main(["memory", str(tmp_path), "--no-cache", "--format", "json"]) == 0
    said = capsys.readouterr()
    found = json.loads(said.out)
    assert [one["peak_bytes"] for one in found["devices"]] == [100]
    assert [one["reserved_bytes"] for one in found["snapshots"]] == [100]
    assert "memory-bad.pickle" in said.err and "is a damaged pickle" in said.err


def test_the_command_names_the_switch_where_nothing_was_recorded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written(tmp_path / "rank0.pt.trace.json", [])
    assert cli.main(["memory", str(tmp_path), "--no-cache"]) == 2
    assert "profile_memory=True" in capsys.readouterr().err
