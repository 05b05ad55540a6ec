"""Damaged and hostile text: what is whole is kept, what is not is counted, and nothing else is raised."""

from __future__ import annotations

import contextlib
import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kineto_text import event, kernel, kineto, operator, plain

from rankscope.analyzers.errors import UnreadableTrace
from rankscope.analyzers.trace.model import Trace
from rankscope.analyzers.trace.readers import cutting, head, read
from rankscope.analyzers.trace.tables import DeviceEvents, HostEvents

BASE = 4_458_676_522_690_655
EVENTS = [
    each
    for n in range(40)
    for each in (
        operator(BASE + n, external=n, name='a "quoted" }, { name', **{"Input Dims": [[n], []]}),
        event("python_function", "f.py(1): f", BASE + n, 5, **{"Python id": n, "Python parent id": None}),
        kernel(BASE + n, correlation=n),
    )
]
TEXT = kineto(EVENTS).encode()
Reading = Callable[[bytes], Trace]


@pytest.fixture
def reading(tmp_path: Path) -> Reading:
    def read_bytes(text: bytes) -> Trace:
        path = tmp_path / "a.json"
        path.write_bytes(text)
        return read(path)

    return read_bytes


def rows(trace: Trace) -> int:
    return sum(len(table) for table in trace.tables.values())


def whole_events(text: bytes) -> int:
    """Events that end before the end of this front part of TEXT."""
    return text.count(b"\n  }")


SPLICES = [
    b"",
    b"{",
    b"}",
    b"[",
    b"]",
    b'"',
    b"\\",
    b",",
    b"\0",
    b"\xff",
    b"}, {",
    b"NaN",
    b"null",
    b"1e999",
    b"9" * 40,
]
SPLICES += [b"[" * 5_000, b'{"a":' * 5_000, TEXT[:300], TEXT[900:1_400], b"\xef\xbb\xbf"]
HEAD = TEXT.index(b"[\n")  # behind `"traceEvents": [` damage costs events, before it the file


@settings(max_examples=150, deadline=None)
@given(
    at=st.integers(0, len(TEXT)),
    gone=st.integers(0, 400),
    splice=st.sampled_from(SPLICES),
    piece=st.sampled_from([600, 1 << 20]),
)
def test_any_damage_gives_a_trace_or_a_reason(
    tmp_path_factory: pytest.TempPathFactory, at: int, gone: int, splice: bytes, piece: int
) -> None:
    path = tmp_path_factory.mktemp("damage") / "a.json"
    path.write_bytes(TEXT[:at] + splice + TEXT[at + gone :])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cutting, "PIECE", piece)
        try:
            trace = read(path)
        except UnreadableTrace:
            assert whole_events(TEXT[:at]) == 0
        else:
            assert rows(trace) >= whole_events(TEXT[:at])
        with contextlib.suppress(UnreadableTrace):
            head(path)


@settings(max_examples=80, deadline=None)
@given(at=st.integers(0, 1_000), bit=st.integers(0, 7), cut=st.booleans())
def test_damaged_compression_gives_a_trace_or_a_reason(
    tmp_path_factory: pytest.TempPathFactory, at: int, bit: int, cut: bool
) -> None:
    packed = bytearray(gzip.compress(TEXT))
    at = at * len(packed) // 1_001
    packed[at] ^= 1 << bit
    path = tmp_path_factory.mktemp("damage") / "a.json.gz"
    path.write_bytes(packed[:at] if cut else packed)
    try:
        trace = read(path)
    except UnreadableTrace:
        return
    assert rows(trace) <= len(EVENTS)
    assert trace.meta.truncated or rows(trace) == len(EVENTS)


def test_truncated_text_keeps_every_whole_event(reading: Reading) -> None:
    cut = TEXT.index(b'"ts"', len(TEXT) // 2)
    trace = reading(TEXT[:cut])
    assert rows(trace) == whole_events(TEXT[:cut])
    assert trace.meta.truncated
    assert trace.meta.skipped_events == 1
    assert any("end is missing" in warning for warning in trace.meta.warnings)


def test_truncated_gzip_keeps_what_was_compressed(reading: Reading) -> None:
    text = kineto([operator(BASE + n * 7919, n, external=n * 31 % 1009) for n in range(20_000)]).encode()
    packed = gzip.compress(text)
    trace = reading(packed[: len(packed) // 2])
    assert trace.meta.truncated
    assert 6_000 < rows(trace) < 14_000


def test_last_bracket_missing_is_said_and_loses_nothing(reading: Reading) -> None:
    trace = reading(TEXT[: TEXT.rindex(b"]")])
    assert (rows(trace), trace.meta.truncated, trace.meta.skipped_events) == (len(EVENTS), True, 0)


def test_damaged_metadata_behind_the_events_is_said(reading: Reading) -> None:
    trace = reading(TEXT.replace(b'"traceName": "a.json"', b'"traceName": "a.json'))
    assert (rows(trace), trace.meta.truncated) == (len(EVENTS), True)


@pytest.mark.parametrize(
    ("what", "by", "lost"),
    [
        (b'"correlation": 7', b'"correlation": NaN', 0),
        (b'"correlation": 7', b'"correlation": 7, "share": Infinity', 0),
        (b'"correlation": 7', b'"correlation": inf', 1),
        (b'"gemm"', b'"ge\\qmm"', 1),
        (b'"gemm"', b'"C:\\Users\\x"', 1),
        (b'"gemm"', b'"ge"mm"', 1),
        (b'"gemm"', b'"ge\x01\x1f\nmm"', 0),
        (b'"gemm"', b'"ge\xff\xfemm"', 0),
        (b'"gemm"', b'"\\ud800"', 0),
        (b'"gemm"', b"null", 0),
        (b'"gemm"', b'["a", 1]', 0),
        (b'"gemm"', b'"gemm", "name": "gemm"', 0),
        (b'"device": 0', b'"device": {"a": [' + b"[" * 300 + b"]" * 300 + b"]}", 0),
        (b'"device": 0', b'"device": ' + b"[" * 100_000 + b"]" * 100_000, 1),
        (b'"device": 0', b'"device": ' + b"9" * 5_000, 1),
        (b'"dur": 1.000', b'"dur": "x"', 1),
        (b'"ts": 4', b'"ts": NaN, "x": 4', 1),
        (b'"args": {', b'"args": 7, "x": {', 0),
    ],
)
def test_one_bad_event_costs_one_event(reading: Reading, what: bytes, by: bytes, lost: int) -> None:
    at = TEXT.index(what, TEXT.index(b'"correlation": 6'))
    trace = reading(TEXT[:at] + TEXT[at:].replace(what, by, 1))
    assert rows(trace) == len(EVENTS) - lost
    assert trace.meta.skipped_events == lost
    assert not trace.meta.truncated


def test_trailing_comma_is_no_damage(reading: Reading) -> None:
    end = TEXT.rindex(b"\n  ]")
    trace = reading(TEXT[:end] + b",\n" + TEXT[end:])
    assert (rows(trace), trace.meta.skipped_events, trace.meta.truncated) == (len(EVENTS), 0, False)


def test_entries_that_are_no_events_are_counted(reading: Reading) -> None:
    entries = [json.loads(plain(each)) for each in EVENTS]
    text = json.dumps({"traceEvents": [1, None, "x", [2], {}, *entries, [[]], {"ph": 5}]}).encode()
    trace = reading(text)
    assert rows(trace) == len(EVENTS)
    assert trace.meta.skipped_events == 5
    assert trace.meta.events == len(EVENTS) + 7


def test_file_written_over_by_another_rank_keeps_both_parts(reading: Reading) -> None:
    other = kineto([operator(BASE + 10_000 + n, external=1_000 + n) for n in range(30)]).encode()
    cut = TEXT.index(b'"ts"', len(TEXT) // 2)
    trace = reading(TEXT[:cut] + other)
    assert whole_events(TEXT[:cut]) + 28 <= rows(trace) <= whole_events(TEXT[:cut]) + 30
    assert trace.meta.skipped_events >= 1


def test_second_array_of_events_is_said(reading: Reading) -> None:
    trace = reading(TEXT.rstrip()[:-1] + b', "traceEvents": [{"ph": "X"}]}')
    assert rows(trace) == len(EVENTS)
    assert any("twice" in warning for warning in trace.meta.warnings)


def test_objects_behind_the_array_are_not_events(reading: Reading) -> None:
    inner = ",\n".join("  {\n    " + plain(each)[1:-1] + "\n  }" for each in EVENTS).encode()
    trace = reading(TEXT.rstrip()[:-1] + b', "other": [\n' + inner + b"\n]}")
    assert (rows(trace), trace.meta.truncated) == (len(EVENTS), False)


def test_event_longer_than_the_window_is_left_out_and_the_rest_kept(
    reading: Reading, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cutting, "PIECE", 1_000)
    monkeypatch.setattr(cutting, "LONGEST", 20_000)
    at = TEXT.index(b"gemm", len(TEXT) // 2)
    trace = reading(TEXT[:at] + b"x" * 100_000 + TEXT[at:])
    assert rows(trace) == len(EVENTS) - 1
    assert trace.meta.skipped_events == 1
    assert any("longer than" in warning for warning in trace.meta.warnings)


def test_gzip_bomb_is_cut_off_and_said(reading: Reading, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rankscope.analyzers.trace.readers.opening.FREE", 1 << 16)
    monkeypatch.setattr("rankscope.analyzers.trace.readers.opening.RATIO", 20)
    text = kineto([operator(BASE)] * 20_000).encode()
    trace = reading(gzip.compress(text, 9))
    assert 0 < rows(trace) < 20_000
    assert trace.meta.truncated
    assert any("times the size" in warning for warning in trace.meta.warnings)


def test_many_bad_events_cost_no_more_than_their_text(reading: Reading) -> None:
    bad = plain(operator(BASE)).replace("aten::mm", "a\\q").encode()
    trace = reading(b'{"traceEvents": [' + b",".join([bad] * 20_000 + [plain(kernel(BASE)).encode()]) + b"]}")
    assert trace.meta.skipped_events == 20_000
    assert len(trace[DeviceEvents]) == 1
    assert HostEvents not in trace


@pytest.mark.parametrize("piece", [1 << 16, 1 << 20])
def test_false_cuts_among_unusual_events_lose_nothing(
    reading: Reading, monkeypatch: pytest.MonkeyPatch, piece: int
) -> None:
    monkeypatch.setattr(cutting, "PIECE", piece)
    entries = [json.loads(plain(operator(BASE + n, external=n, name='},{"ph":' * (n % 50)))) for n in range(2_000)]
    for n in (3, 400, 401, 1_999):
        entries[n]["args"]["External id"] = str(n)
    text = json.dumps({"traceEvents": entries}, separators=(",", ":")).encode()
    trace = reading(text)
    assert sorted(trace[HostEvents].external_id.tolist()) == list(range(2_000))
    damaged = reading(text.replace(b'"External id":1000}', b'"External id":inf}'))
    assert (len(damaged[HostEvents]), damaged.meta.skipped_events) == (1_999, 1)


def test_name_full_of_false_cuts_is_read(reading: Reading, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cutting, "PIECE", 1 << 16)
    entries = [json.loads(plain(operator(BASE + n, external=n))) for n in range(500)]
    entries[250]["name"] = "},{" * 300_000
    trace = reading(json.dumps({"traceEvents": entries}, separators=(",", ":")).encode())
    assert sorted(trace[HostEvents].external_id.tolist()) == list(range(500))
    assert trace.meta.skipped_events == 0
