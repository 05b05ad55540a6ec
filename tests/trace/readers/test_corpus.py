"""Real traces of all ages and vendors, event by event against the digits of their text."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from decimal import Decimal
from typing import Any

import pytest
from corpus import corpus

from rankscope.analyzers.errors import UnreadableTrace
from rankscope.analyzers.trace.model import Trace
from rankscope.analyzers.trace.readers import head, read
from rankscope.analyzers.trace.tables import (
    DeviceAnnotations,
    DeviceEvents,
    HostEvents,
    OtherEvents,
    PythonFunctions,
    RuntimeCalls,
)

DEVICE = {"kernel", "gpu_memcpy", "gpu_memset", "Kernel", "Memcpy", "Memset", "mtia_ccp_events", "gpu_user_annotation"}
TRACES = [
    "gloo-4rank/ddp/rank0.json.gz",
    "hta/benchmark_result_2869224_1695835535_trace.json.gz",
    "hta/event_sync_trace.json.gz",
    "hta/mi250_minitoy_train_ROCm6_2_kineto.json.gz",
    "hta/mtia_inference_rank_0.json.gz",
    "hta/nccl_data.json.gz",
    "hta/rank-70.Mar_25_20_48_12.2861.pt.trace.json.gz",
    "hta/rank0.json.gz",
    "hta/sampled_rank-0.json.gz",
    "hta/test.json.gz",
    "hta/triton_example.json.gz",
    "kineto-dlrm-8rank/worker0_step_12.1694128201545.pt.trace.json.gz",
    "kineto-tb-samples/num_workers_0/worker0.1623143089861.pt.trace.json.gz",
    "kineto-tb-samples/top_level_list/worker0.pt.trace.json.gz",
    "tracelens/eager_trace.json.gz",
    "tracelens/gpu_only_trace.json.gz",
    "tracelens/h100_qwen1.5-0.5b.json.gz",
    "tracelens/mi300_qwen1.5-0.5b.json.gz",
    "tracelens/train_resnet18.json.gz",
]
Seen = tuple[int, int, str, int, int | None]


def written(relative: str) -> Counter[Seen]:
    """(begin, duration, name, process or device, thread or stream) of every timed event, from the text's own digits."""
    file: Any = json.loads(gzip.decompress(corpus(relative).read_bytes()), parse_float=Decimal)
    events = file if isinstance(file, list) else file["traceEvents"]
    seen: Counter[Seen] = Counter()
    for event in events:
        if event.get("ph") != "X" or not isinstance(event.get("pid"), int) or event.get("cat") == "Trace":
            continue
        pid, tid, args = event["pid"], event["tid"], event.get("args") or {}
        if event["cat"] in DEVICE:
            pid, tid = args.get("device", args.get("inDevice", pid)), args.get("stream", tid)
        seen[int(event["ts"] * 1000), int(event["dur"] * 1000), event["name"], pid, int(tid)] += 1
    return seen


def recorded(trace: Trace) -> Counter[Seen]:
    seen: Counter[Seen] = Counter()
    for table in (HostEvents, RuntimeCalls, PythonFunctions, OtherEvents, DeviceEvents, DeviceAnnotations):
        rows = trace.get(table).columns
        places = ("device", "stream") if "device" in rows else ("pid", "tid")
        columns = [rows[name].tolist() for name in ("start_ns", "dur_ns", "name_id", *places)]
        seen.update((start, dur, trace.names[name], *place) for start, dur, name, *place in zip(*columns, strict=True))
    return seen


@pytest.mark.parametrize("relative", TRACES)
def test_every_timed_event_is_exact(relative: str) -> None:
    trace = read(corpus(relative))
    assert recorded(trace) == written(relative)
    assert (trace.meta.skipped_events, trace.meta.truncated, trace.meta.warnings) == (0, False, ())
    first = head(corpus(relative))
    assert (first.rank, first.world_size) == (trace.meta.rank, trace.meta.world_size)
    assert first.base_ns in (None, trace.meta.base_ns)


@pytest.mark.parametrize(
    ("relative", "word"),
    [
        ("chakra-et-2rank/eg.rank_0.pt.trace.json.gz", "execution trace"),
        ("flight-recorder/gloo-4rank/_dump_fr_trace_json_0.json", "flight-recorder"),
        ("flight-recorder/gpu_error_1st/_dump_0", "flight-recorder"),
        ("hta/memory_timeline.raw.gz", "memory timeline"),
        ("hta/meta_events_only.json", "only metadata"),
        ("bytedance-straggler/trace-AR.parquet", "Parquet"),
        ("bytedance-straggler/result-AR.json", "no traceEvents"),
    ],
)
def test_other_formats_are_refused_by_name(relative: str, word: str) -> None:
    for look in (read, head):
        with pytest.raises(UnreadableTrace, match=word):
            look(corpus(relative))
