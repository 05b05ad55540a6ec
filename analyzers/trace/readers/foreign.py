"""JSON that is no profiler trace, told by its first keys, in a word a person understands."""

from __future__ import annotations

import re

ASCEND_TABLES = (
    (b"Communication(Not Overlapped)", "is Ascend's table of steps, not a trace: `rankscope ascend` prints it"),
    (b"Accelerator Core", "is Ascend's table of kernels, without the host: give its trace_view.json"),
)
TOP_KEY = re.compile(rb'"([^"\\]{1,64})"\s*:')


def why_not(front: bytes) -> str | None:
    """Why text without a `traceEvents` array is not a profiler trace; None where it may still be one."""
    text = front.removeprefix(b"\xef\xbb\xbf").lstrip()
    if not text:
        return "is empty"
    keys = {key.decode("utf-8", "replace") for key in TOP_KEY.findall(text)}
    if text[:1] == b"{":
        return _object(keys, text)
    if text[:1] == b"[":
        inner = text[1:].lstrip()[:1]
        if inner == b"[":
            return "is a list of lists, such as a PyTorch memory timeline, not a profiler trace"
        if inner not in (b"{", b"]", b""):
            return "is a JSON list, but not of events: not a profiler trace"
        return None
    columns = text.partition(b"\n")[0]
    return next((told for words, told in ASCEND_TABLES if words in columns), "is not JSON")


def _object(keys: set[str], text: bytes) -> str | None:
    if "traceEvents" in keys:
        return None
    if {"schema", "nodes"} <= keys:
        return "is a PyTorch execution trace, not a profiler trace"
    if "entries" in keys and {"pg_config", "pg_status"} & keys:
        return "is a flight-recorder dump, not a profiler trace"
    if {"device_traces", "segments"} & keys:
        return "is a PyTorch memory snapshot, not a profiler trace"
    if "Communication Time Info" in keys:
        return "is Ascend's table of collectives, not a trace: give the trace_view.json of each rank"
    if re.match(rb"\{\s*\}\s*$", text):
        return "is an empty JSON object"
    return None


def without_rows(phases: dict[str, int], entries: int) -> str:
    """Why a file with an array of events gave no rows."""
    if not entries:
        return "holds no events"
    if not phases:
        return "is a JSON list, but not of events: not a profiler trace"
    if set(phases) <= {"M"}:
        return "holds no timed events, only metadata"
    if phases.get("B"):
        return "marks begins and ends (phases B and E), but no ranges called forward or backward: not a timeline this reads"
    return "holds no timed events"
