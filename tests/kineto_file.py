"""Small Kineto traces with what a test needs to choose: rank, world, host, process, begin. One step, one kernel."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

BASE_NS = 1_767_225_600_000_000_000
SECOND = 10**9


def trace(
    rank: int | None = 0,
    world: int | None = 2,
    *,
    begin_ns: int = 0,
    host: str | None = "node0",
    pid: int = 4000,
    base_ns: int | None = BASE_NS,
    kernel_ns: int = 500_000,
    steps: int = 3,
) -> dict[str, Any]:
    """A trace whose first event begins `begin_ns` after the base; `rank` None: it does not state its rank."""
    head: dict[str, Any] = {"schemaVersion": 1}
    if rank is not None:
        head["distributedInfo"] = {"backend": "nccl", "rank": rank, "world_size": world}
    if host is not None:
        head["host_name"] = host
    if base_ns is not None:
        head["baseTimeNanoseconds"] = base_ns
    events: list[dict[str, Any]] = []
    for step in range(steps):
        at = (begin_ns + step * 1_000_000) / 1000
        launch = {"correlation": step + 1, "External id": step + 1}
        device = {"device": 0, "stream": 7, "correlation": step + 1}
        events += [
            _event("user_annotation", f"ProfilerStep#{step}", at, 1000, pid),
            _event("cpu_op", "aten::mm", at + 10, 50, pid),
            _event("cuda_runtime", "cudaLaunchKernel", at + 20, 10, pid, launch),
            _event("kernel", "gemm", at + 40, kernel_ns / 1000, 0, device),
        ]
    return head | {"traceEvents": events}


def write(path: Path, *args: Any, **kwargs: Any) -> Path:
    """`trace(...)` in a file, compressed when its name says so; folders are made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(trace(*args, **kwargs)).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


def _event(
    category: str, name: str, ts: float, dur: float, pid: int, args: dict[str, Any] | None = None
) -> dict[str, Any]:
    tid = (args or {}).get("stream", pid)
    return {"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args or {}}
