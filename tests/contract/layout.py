"""The text of a rank's file, in Kineto's own layout."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from contract.writer import Rank

Event = dict[str, Any]
BASE = 1_767_225_600_000_000_000  # baseTimeNanoseconds; the same in every file
ORIGIN = 4_458_000_000_000_000  # nanoseconds after the base at which each case's time 0 lies


def micros(ns: int) -> str:
    """Microseconds with three decimals, as Kineto prints them."""
    return f"{ns // 1000}.{ns % 1000:03d}"


def text(rank: Rank) -> str:
    """The file's text in Kineto's own layout."""
    devices = (
        []
        if rank.device is None
        else [
            {
                "id": rank.device,
                "name": "NVIDIA H100 80GB HBM3",
                "totalGlobalMem": 85_000_000_000,
                "computeMajor": 9,
                "computeMinor": 0,
                "warpSize": 32,
                "numSms": 132,
            }
        ]
    )
    config = "cpu:gloo,cuda:gloo" if rank.backend == "gloo" else "cuda:nccl"
    groups = [
        {
            "pg_name": name,
            "pg_desc": "default_pg" if name == "0" else "undefined",
            "backend_config": config,
            "pg_size": len(ranks),
            "ranks": ranks,
        }
        for name, ranks in rank.groups.items()
    ]
    first = min(e["ts"] for e in rank.events) - 40_000
    last = max(e["ts"] + e.get("dur", 0) for e in rank.events if e.get("dur", 0) < 1_000_000_000) + 40_000
    events = [
        {"ph": "M", "name": "process_name", "ts": first, "pid": rank.pid, "tid": 0, "args": {"name": "python3"}},
        {"ph": "M", "name": "process_labels", "ts": first, "pid": rank.pid, "tid": 0, "args": {"labels": "CPU"}},
        *rank.events,
        {
            "ph": "X",
            "cat": "Trace",
            "name": "PyTorch Profiler (0)",
            "pid": "Spans",
            "tid": "PyTorch Profiler",
            "ts": first,
            "dur": last - first,
            "args": {"Op count": 0},
        },
        {"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "", "ts": last},
    ]
    if rank.device is not None:
        events.insert(2, {**events[1], "pid": rank.device, "args": {"labels": f"GPU {rank.device}"}})
    head = {
        "schemaVersion": 1,
        "deviceProperties": devices,
        "trace_id": f"{rank.rank:032X}",
        "distributedInfo": {
            "backend": rank.backend,
            "rank": rank.rank,
            "world_size": rank.world,
            "pg_count": len(groups),
            "pg_config": groups,
            **({} if rank.backend == "gloo" else {"nccl_version": "2.27.5"}),
        },
        "host_name": rank.node,
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": BASE,
    }
    top = "".join(f"  {json.dumps(key)}: {json.dumps(value)},\n" for key, value in head.items())
    return (
        "{\n"
        + top
        + '  "traceEvents": [\n'
        + ",\n".join(_line(event, rank.shift) for event in events)
        + f'\n  ], "traceName": "rank-{rank.rank}.json"\n}}\n'
    )


def _line(event: Event, shift: int) -> str:
    fields = []
    for key, value in event.items():
        number = micros(value + ORIGIN + shift) if key == "ts" else micros(value) if key == "dur" else json.dumps(value)
        fields.append(f'"{key}": {number}')
    return "  {\n    " + ", ".join(fields) + "\n  }"
