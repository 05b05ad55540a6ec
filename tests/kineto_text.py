"""Small traces as text: events by hand, laid out as PyTorch prints them."""

from __future__ import annotations

import json
from typing import Any

Event = dict[str, Any]


class Digits(str):
    """A number written exactly so."""


def event(cat: str, name: str, start_ns: int, dur_ns: int, pid: object = 1, tid: object = 1, **args: Any) -> Event:
    return {
        "ph": "X",
        "cat": cat,
        "name": name,
        "pid": pid,
        "tid": tid,
        "ts": us(start_ns),
        "dur": us(dur_ns),
        "args": args,
    }


def operator(start_ns: int, dur_ns: int = 1_000, name: str = "aten::mm", external: int = 1, **args: Any) -> Event:
    return event("cpu_op", name, start_ns, dur_ns, **{"External id": external, **args})


def kernel(start_ns: int, dur_ns: int = 1_000, name: str = "gemm", stream: int = 7, **args: Any) -> Event:
    ids = {"External id": 1, "device": 0, "stream": stream, "correlation": 1}
    return event("kernel", name, start_ns, dur_ns, 0, stream, **{**ids, **args})


def us(ns: int) -> Digits:
    sign, ns = "-" if ns < 0 else "", abs(ns)
    return Digits(f"{sign}{ns // 1000}.{ns % 1000:03d}")


def plain(value: Any) -> str:
    """JSON, with Digits as they are."""
    if isinstance(value, Digits):
        return str(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)}: {plain(entry)}" for key, entry in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(plain, value)) + "]"
    return json.dumps(value)


def kineto(events: list[Event], **keys: Any) -> str:
    """A file in Kineto's own layout; `keys` stand before the events."""
    head = {"schemaVersion": 1, "distributedInfo": {"backend": "nccl", "rank": 3, "world_size": 8}, **keys}
    top = "".join(f"  {json.dumps(key)}: {json.dumps(value)},\n" for key, value in head.items())
    lines = ",\n".join("  {\n    " + plain(entry)[1:-1] + "\n  }" for entry in events)
    return "{\n" + top + '  "traceEvents": [\n' + lines + '\n  ], "traceName": "a.json"\n}\n'
