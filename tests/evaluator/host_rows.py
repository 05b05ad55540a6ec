"""Where the time of a CPU-only rank went, by elementary segments. Written from docs/accounting.md, section 4, alone."""

from __future__ import annotations

import re
from typing import Any

from evaluator.events import HOST, File
from evaluator.rows import Record, Row, Sweep, add_host, add_records, into_rows, whole, windows, within

WRAPPER = re.compile(r".*autograd::|.*Backward|c10d::|fsdp::|torch\.distributed|profiler::|record_param_comms")


def host_rows(file: File, records: list[Record]) -> list[Row]:
    """Every row of a rank without devices."""
    found = windows(file, None)
    rows = into_rows(found, None)
    sweep = Sweep()
    sweep.cut([found[0][1], *(end for _, _, end in found)])
    add_host(sweep, file)
    add_records(sweep, records)
    for start, end, on_main in working(file):
        sweep.add("compute" if on_main else "elsewhere", start, end)
    for row, start, end in within(sweep, rows):
        bucket = host_bucket(sweep.active)
        row.parts[bucket] += end - start
        if bucket == "kernel_ns" and any(sweep.active[key] for key in ("wait", "transfer", "unsplit")):
            row.overlays["communication"] += end - start
        if bucket == "kernel_ns" and (sweep.active["loader"] or sweep.active["checkpoint"]):
            row.overlays["io"] += end - start
    return whole(rows)


def working(file: File) -> list[tuple[int, int, bool]]:
    """Operators that do work on training threads, and whether on the one with the marks."""
    threads = {file.main} | {e.tid for e in file.timed if e.cat in HOST and is_backward(e.name)}
    return [
        (e.start, e.end, e.tid == file.main)
        for e in file.timed
        if e.tid in threads and e.cat in ("cpu_op", "Operator") and is_working(e.name)
    ]


def host_bucket(active: dict[Any, int]) -> str:
    """What a nanosecond of a CPU-only rank is; what the main thread runs inside the loader is the loader's."""
    order = (
        ("elsewhere", "kernel_ns"),
        ("checkpoint", "checkpoint_ns"),
        ("loader", "data_loading_ns"),
        ("compute", "kernel_ns"),
        ("transfer", "transfer_ns"),
        ("unsplit", "unsplit_ns"),
        ("wait", "wait_ns"),
        ("gc", "gc_ns"),
    )
    return next((bucket for key, bucket in order if active[key]), "other_ns")


def is_backward(name: str) -> bool:
    """A backward node."""
    return "Backward" in name or name.startswith("autograd::engine")


def is_working(name: str) -> bool:
    """An operator that does work, not one that wraps."""
    return ("::" in name or name.startswith("triton")) and not WRAPPER.match(name)
