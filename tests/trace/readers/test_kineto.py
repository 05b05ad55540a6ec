"""What becomes of each kind of event, layout and number."""

from __future__ import annotations

import contextlib
import gc
import gzip
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kineto_text import Digits, event, kernel, kineto, operator, plain, us

from rankscope.analyzers.errors import UnreadableTrace
from rankscope.analyzers.trace.model import MissingTable, ProcessGroup, Trace
from rankscope.analyzers.trace.readers import cutting, read
from rankscope.analyzers.trace.tables import (
    CollectiveArgs,
    DeviceAnnotations,
    DeviceEvents,
    Flows,
    HostEvents,
    MemoryEvents,
    OtherEvents,
    PythonFunctions,
    RuntimeCalls,
)

BASE = 4_458_676_522_690_655


@pytest.fixture
def reading(tmp_path: Path) -> Any:
    def read_text(text: str | bytes, name: str = "a.json") -> Trace:
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read(path)

    return read_text


def column(trace: Trace, table: type, name: str) -> list[int | None]:
    rows = trace[table]
    return [int(value) if there else None for value, there in zip(rows.columns[name], rows.valid(name), strict=True)]


def names(trace: Trace, table: type, name: str = "name_id") -> list[str]:
    return [trace.names[row] for row in trace[table].columns[name]]


def test_every_nanosecond_below_the_float_limit_is_exact(reading: Any) -> None:
    starts = [BASE + 7 * n * n + n for n in range(3_000)]
    trace = reading(kineto([operator(start, n, external=n) for n, start in enumerate(starts)]))
    assert column(trace, HostEvents, "start_ns") == starts
    assert column(trace, HostEvents, "dur_ns") == list(range(3_000))
    floats = [int(Decimal(us(start)) * 1000) == round(float(us(start)) * 1000) for start in starts]
    assert not all(floats)  # the shortcut would have been wrong


def test_absolute_times_with_decimals_keep_their_digits(reading: Any) -> None:
    starts = [1_712_160_000_123_456_001 + 1_000 * n for n in range(50)]  # each rounds to a whole us as a float64
    assert column(reading(kineto([operator(start) for start in starts])), HostEvents, "start_ns") == starts


def test_absolute_whole_microseconds_are_exact(reading: Any) -> None:
    events = [{**operator(0), "ts": 1_683_564_901_548_726 + n, "dur": n} for n in range(5)]
    trace = reading(kineto(events))
    assert column(trace, HostEvents, "start_ns") == [(1_683_564_901_548_726 + n) * 1000 for n in range(5)]


@pytest.mark.parametrize("number", ["1e-3", "0.001", "1E-3", "0.0010"])
def test_a_nanosecond_is_one_however_it_is_written(reading: Any, number: str) -> None:
    assert column(reading(kineto([{**operator(BASE), "dur": Digits(number)}])), HostEvents, "dur_ns") == [1]


def test_negative_duration_and_missing_duration_are_kept(reading: Any) -> None:
    bare = operator(BASE)
    del bare["dur"]
    assert column(reading(kineto([operator(BASE, -1_500), bare])), HostEvents, "dur_ns") == [-1_500, 0]


@pytest.mark.parametrize("dur", ["1e16", "1e999999999", "9223372036854775807", "1e400"])
def test_times_beyond_63_bits_are_counted_and_left_out(reading: Any, dur: str) -> None:
    trace = reading(kineto([operator(BASE), {**operator(BASE), "dur": Digits(dur)}]))
    assert len(trace[HostEvents]) == trace.meta.skipped_events == 1


def test_begin_and_duration_that_overflow_together_are_left_out(reading: Any) -> None:
    late = {**operator(0), "ts": 9_000_000_000_000_000, "dur": 300_000_000_000_000}
    trace = reading(kineto([operator(BASE), late]))
    assert len(trace[HostEvents]) == trace.meta.skipped_events == 1


@pytest.mark.parametrize(
    ("cat", "table"),
    [
        ("cpu_op", HostEvents),
        ("user_annotation", HostEvents),
        ("Operator", HostEvents),
        ("cuda_runtime", RuntimeCalls),
        ("cuda_driver", RuntimeCalls),
        ("mtia_runtime", RuntimeCalls),
        ("Runtime", RuntimeCalls),
        ("kernel", DeviceEvents),
        ("gpu_memcpy", DeviceEvents),
        ("gpu_memset", DeviceEvents),
        ("Kernel", DeviceEvents),
        ("Memcpy", DeviceEvents),
        ("Memset", DeviceEvents),
        ("mtia_ccp_events", DeviceEvents),
        ("gpu_user_annotation", DeviceAnnotations),
        ("python_function", PythonFunctions),
        ("cuda_sync", OtherEvents),
        ("overhead", OtherEvents),
        ("a category of tomorrow", OtherEvents),
    ],
)
def test_category_alone_decides_the_table(reading: Any, cat: str, table: type) -> None:
    trace = reading(kineto([event(cat, "x", BASE, 10, stream=7, device=1)]))
    assert [found for found in trace.tables] == [table]
    assert names(trace, table) == ["x"]
    assert trace.meta.unknown_categories == ({cat: 1} if "tomorrow" in cat else {})


def test_device_and_stream_fall_back_to_where_the_event_ran(reading: Any) -> None:
    trace = reading(
        kineto(
            [
                event("kernel", "a", BASE, 1, 3, 5),
                event("gpu_memcpy", "b", BASE, 1, 3, 5, inDevice=2, fromDevice=2, toDevice=6, stream=9, bytes=4096),
            ]
        )
    )
    assert column(trace, DeviceEvents, "device") == [3, 2]
    assert column(trace, DeviceEvents, "stream") == [5, 9]
    assert column(trace, DeviceEvents, "bytes") == [None, 4096]
    assert column(trace, DeviceEvents, "from_device") == [None, 2]
    assert column(trace, DeviceEvents, "to_device") == [None, 6]


def test_ids_are_absent_rather_than_invented(reading: Any) -> None:
    args: list[dict[str, Any]] = [
        {},
        {"correlation": 5},
        {"correlation": "6"},
        {"correlation": None},
        {"correlation": 2**64 - 1},
        {"correlation": 2**60 + 1},
        {"correlation": "x"},
    ]
    trace = reading(kineto([event("cuda_runtime", "f", BASE, 1, **each) for each in args]))
    assert sorted(column(trace, RuntimeCalls, "correlation"), key=str) == sorted(
        [None, 5, 6, None, None, 2**60 + 1, None], key=str
    )


def test_old_spelling_of_the_external_id_counts(reading: Any) -> None:
    calls = [event("cuda_runtime", "f", BASE, 1, **{"external id": n}) for n in range(100)]
    assert column(reading(kineto(calls)), RuntimeCalls, "external_id") == list(range(100))


def test_null_parent_is_absent(reading: Any) -> None:
    calls = [
        event("python_function", "f", BASE, 1, **{"Python id": n, "Python parent id": n or None}) for n in range(9)
    ]
    calls.append(event("python_function", "f", BASE, 1, **{"Python id": 9, "Python parent id": None}))
    trace = reading(kineto(calls))
    assert column(trace, PythonFunctions, "python_id") == list(range(10))
    assert column(trace, PythonFunctions, "parent_id") == [None, *range(1, 9), None]


def test_collective_arguments_stand_beside_the_events_that_carry_them(reading: Any) -> None:
    args: dict[str, Any] = {
        "Collective name": "allreduce",
        "dtype": "Float",
        "In msg nelems": 10,
        "Group size": 2,
        "Process Group Name": "0",
        "Process Group Ranks": "[0, 1]",
        "Seq": 7,
    }
    events = [operator(BASE + n, external=n) for n in range(200)]
    events[50]["args"] |= {**args, "Rank": 1, "Dst Rank": 1}
    events += [kernel(BASE), kernel(BASE, **args), kernel(BASE)]
    trace = reading(kineto(events))
    rows = trace[CollectiveArgs]
    assert rows.columns["on_device"].tolist() == [False, True]
    host, device = int(rows.row[0]), int(rows.row[1])
    assert trace[HostEvents].external_id[host] == 50
    assert (device, len(trace[DeviceEvents])) == (1, 3)
    assert [names(trace, CollectiveArgs, key)[0] for key in ("collective_id", "group_ranks_id", "in_split_id")] == [
        "allreduce",
        "[0, 1]",
        "",
    ]
    assert column(trace, CollectiveArgs, "seq") == [7, 7]
    assert column(trace, CollectiveArgs, "root") == [1, None]
    assert column(trace, CollectiveArgs, "dst") == [1, None]
    assert column(trace, CollectiveArgs, "out_elements") == [None, None]


def test_rows_of_collectives_hold_over_many_pieces(reading: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cutting, "PIECE", 2_048)
    events = [operator(BASE + n, external=n, **({"Seq": n} if n % 7 == 0 else {})) for n in range(500)]
    trace = reading(kineto(events))
    rows = trace[CollectiveArgs]
    assert trace[HostEvents].external_id[rows.row].tolist() == rows.seq.tolist() == list(range(0, 500, 7))


def test_shapes_are_one_text_whatever_the_layout(reading: Any) -> None:
    events = [operator(BASE, **{"Input Dims": [[2, 3], []]}), operator(BASE), operator(BASE, **{"Input Dims": []})]
    entries = [json.loads(plain(each)) for each in events]
    for text in (kineto(events), json.dumps(entries, indent=4), json.dumps(entries, separators=(",", ":"))):
        assert names(reading(text), HostEvents, "shapes_id") == ["[[2, 3], []]", "", "[]"]


def test_memory_events_of_both_ages_are_read(reading: Any) -> None:
    args = {"Bytes": -512, "Addr": 2**47, "Device Type": 1, "Device Id": 0, "Total Allocated": 9, "Total Reserved": 10}
    new = {
        "ph": "i",
        "cat": "cpu_instant_event",
        "s": "t",
        "name": "[memory]",
        "pid": 1,
        "tid": 1,
        "ts": us(BASE),
        "args": args,
    }
    old = {**new, "ts": us(BASE + 1), "args": {"Bytes": 1, "Device Type": 0, "Device Id": -1}}
    del old["cat"]
    trace = reading(kineto([new, old]))
    assert column(trace, MemoryEvents, "at_ns") == [BASE, BASE + 1]
    assert column(trace, MemoryEvents, "bytes") == [-512, 1]
    assert column(trace, MemoryEvents, "address") == [2**47, None]
    assert column(trace, MemoryEvents, "device") == [0, -1]


def test_arrows_from_forward_to_backward_are_kept_and_launch_arrows_only_counted(reading: Any) -> None:
    arrows = [
        {"ph": ph, "id": 8, "pid": 1, "tid": tid, "ts": us(BASE + tid), "cat": cat, "name": cat}
        for cat in ("fwdbwd", "ac2g")
        for ph, tid in (("s", 1), ("f", 2))
    ]
    trace = reading(kineto([operator(BASE), *arrows]))
    assert column(trace, Flows, "at_ns") == [BASE + 1, BASE + 2]
    assert trace[Flows].columns["begins"].tolist() == [True, False]
    assert (trace.meta.events, trace.meta.skipped_events) == (5, 0)


def test_profiler_spans_and_metadata_are_no_events_of_a_process(reading: Any) -> None:
    trace = reading(
        kineto(
            [
                {"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "ts": us(BASE), "args": {"name": "python"}},
                operator(BASE),
                event("Trace", "PyTorch Profiler (0)", BASE, 10**9, "Spans", "PyTorch Profiler"),
                event("overhead", "x", BASE, 1, "Traces", ""),
                {"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "", "ts": us(BASE)},
            ]
        )
    )
    assert list(trace.tables) == [HostEvents]
    assert (trace.meta.events, trace.meta.skipped_events) == (5, 0)


def test_threads_named_by_text_stay_apart(reading: Any) -> None:
    events = [event("cpu_op", "x", BASE, 1, 1, tid) for tid in ("25738", "stream 7", "Main", "Loader", "Main")]
    tids = column(reading(kineto(events)), HostEvents, "tid")
    assert tids[:2] == [25738, 7]
    assert tids[2] == tids[4] != tids[3]


def test_file_says_what_it_is(reading: Any) -> None:
    trace = reading(
        kineto(
            [operator(BASE)],
            distributedInfo={
                "backend": "nccl",
                "rank": 5,
                "world_size": 16,
                "pg_config": [
                    {"pg_name": "0", "pg_desc": "default_pg", "backend_config": "cuda:nccl", "ranks": [0, 5]},
                    {"pg_name": "1", "ranks": "..."},
                ],
            },
            deviceProperties=[{"id": 0, "name": "H100"}, "?"],
            host_name="node7",
            baseTimeNanoseconds=1_767_189_312_000_000_000,
            trace_id="A",
            group_trace_id="G",
            record_shapes=1,
        )
    )
    meta = trace.meta
    assert (meta.rank, meta.world_size, meta.backend, meta.host) == (5, 16, "nccl", "node7")
    assert (meta.base_ns, meta.trace_id, dict(meta.flags)) == (1_767_189_312_000_000_000, "G", {"record_shapes": 1})
    assert meta.devices == ((0, "H100"),)
    assert meta.groups == (ProcessGroup("0", "default_pg", "cuda:nccl", (0, 5)), ProcessGroup("1", "", "", None))
    assert (meta.truncated, meta.warnings, meta.unknown_categories) == (False, (), {})


def test_file_that_says_nothing_has_none_for_everything(reading: Any) -> None:
    meta = reading(json.dumps([json.loads(plain(operator(BASE)))])).meta
    assert (meta.rank, meta.world_size, meta.host, meta.base_ns, meta.trace_id) == (None, None, None, 0, None)
    assert not meta.truncated


def test_table_without_rows_is_missing_and_says_how_to_record_it(reading: Any) -> None:
    trace = reading(kineto([operator(BASE)]))
    assert PythonFunctions not in trace
    with pytest.raises(MissingTable) as error:
        trace[PythonFunctions]
    assert "with_stack" in error.value.record


def laid_out(layout: str, events: list[dict[str, Any]]) -> bytes:
    entries = [json.loads(plain(each)) for each in events]
    keys = {"distributedInfo": {"rank": 3}, "schemaVersion": 1}
    if layout == "kineto":
        return kineto(events).encode()
    if layout == "list":
        return json.dumps(entries).encode()
    if layout == "indented list":
        return json.dumps(entries, indent=1).encode()
    indent, separators = {"minified": (None, (",", ":")), "pretty": (4, None)}.get(layout, (None, None))
    text = {
        "first": {"traceEvents": entries, **keys},
        "middle": {"schemaVersion": 1, "traceEvents": entries, "distributedInfo": {"rank": 3}},
    }.get(layout, {**keys, "traceEvents": entries})
    whole = json.dumps(text, indent=indent, separators=separators).encode()
    if layout == "bom":
        return b"\xef\xbb\xbf" + whole
    if layout == "crlf":
        return json.dumps(text, indent=2).replace("\n", "\r\n").encode()
    if layout == "decoy":
        return whole.replace(b"{", b'{"note": "\\"traceEvents\\": [", "inner": {"traceEvents": [{"ph": 1}]}, ', 1)
    if layout == "members":
        return gzip.compress(whole[:500]) + gzip.compress(whole[500:]) + b"\0" * 512
    return gzip.compress(whole) if layout == "gzip" else whole


@pytest.mark.parametrize("piece", [512, 1 << 20])
@pytest.mark.parametrize(
    "layout",
    [
        "kineto",
        "minified",
        "pretty",
        "first",
        "middle",
        "last",
        "list",
        "indented list",
        "bom",
        "crlf",
        "decoy",
        "gzip",
        "members",
    ],
)
def test_layout_changes_nothing(reading: Any, monkeypatch: pytest.MonkeyPatch, layout: str, piece: int) -> None:
    monkeypatch.setattr(cutting, "PIECE", piece)
    tricky = ["}, {", '"}],', "]}", "\\", 'a": [', "},\n  {", "é"]
    events = [operator(BASE + n, name=tricky[n % 7], external=n, **{"Input Dims": [[n % 3]]}) for n in range(100)]
    trace = reading(laid_out(layout, events), "whatever.bin")
    order = np.argsort(trace[HostEvents].start_ns)
    assert trace[HostEvents].external_id[order].tolist() == list(range(100))
    assert [names(trace, HostEvents)[row] for row in order] == [tricky[n % 7] for n in range(100)]
    assert (trace.meta.truncated, trace.meta.skipped_events) == (False, 0)
    assert trace.meta.rank == (None if "list" in layout else 3)


def test_pieces_do_not_change_the_result(reading: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    events = [each for n in range(300) for each in (operator(BASE + n, external=n), kernel(BASE + n, correlation=n))]
    whole = reading(kineto(events))
    monkeypatch.setattr(cutting, "PIECE", 1_000)
    cut = reading(kineto(events))
    assert list(whole.names) == list(cut.names)
    for table in whole.tables:
        for name, values in whole[table].columns.items():
            assert np.array_equal(values, cut[table].columns[name]), (table, name)


def test_progress_ends_at_the_size_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(kineto([operator(BASE)] * 50))
    seen: list[tuple[int, int]] = []
    read(path, progress=lambda done, size: seen.append((done, size)))
    assert seen[-1] == (path.stat().st_size,) * 2
    assert seen == sorted(seen)


def test_half_a_character_in_what_the_file_says_of_itself_can_be_stored(reading: Any) -> None:
    meta = reading(kineto([operator(BASE)], host_name="\ud800", trace_id="a\udfff")).meta
    assert (meta.host, meta.trace_id) == ("\\ud800", "a\\udfff")


def test_long_name_is_cut_and_said(reading: Any) -> None:
    trace = reading(kineto([operator(BASE, name="x" * 3_000_000), operator(BASE + 1)]))
    assert [len(name) for name in names(trace, HostEvents)] == [65_536, len("aten::mm")]
    assert any("longer than" in warning for warning in trace.meta.warnings)


def test_distinct_names_are_capped_and_said(reading: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rankscope.analyzers.trace.readers.columns.MAX_NAMES", 10)
    trace = reading(kineto([operator(BASE + n, name=f"n{n}") for n in range(50)]))
    assert len(trace[HostEvents]) == 50
    assert len(trace.names) <= 11
    assert any("distinct names" in warning for warning in trace.meta.warnings)


def test_rows_are_capped_and_said(reading: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rankscope.analyzers.trace.readers.columns.MAX_ROWS", 60)
    monkeypatch.setattr(cutting, "PIECE", 2_048)
    trace = reading(kineto([operator(BASE + n) for n in range(100)]))
    assert 40 < len(trace[HostEvents]) <= 60
    assert trace.meta.events == 100
    assert any("rows in a table" in warning for warning in trace.meta.warnings)


def test_collector_is_off_while_reading_and_as_before_afterwards(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    for text, enabled in ((kineto([operator(BASE)]), True), ("{}", True), (kineto([operator(BASE)]), False)):
        path.write_text(text)
        states: list[bool] = []
        (gc.enable if enabled else gc.disable)()
        try:
            with contextlib.suppress(UnreadableTrace):
                read(path, progress=lambda *_, states=states: states.append(gc.isenabled()))
            assert gc.isenabled() is enabled
            assert not any(states)
        finally:
            gc.enable()


def test_no_timed_event_is_a_reason_and_not_a_table(reading: Any) -> None:
    with pytest.raises(UnreadableTrace, match="no timed events"):
        reading(kineto([{"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "args": {}}]))
