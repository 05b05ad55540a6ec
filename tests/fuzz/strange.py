"""Values, names and whole files that no profiler writes and a reader will meet."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Callable
from copy import deepcopy
from random import Random
from typing import Any

Event = dict[str, Any]
HUGE = (2**31, 2**53 + 1, 2**63 - 1, 2**63, 2**64, 10**18, 10**30, 10**300)
VALUES: tuple[Any, ...] = (
    None, True, False, "", "0", "rank", "-1", "1e400", "NaN", [], [1, "a", None], {}, {"a": [{}]}, 0, -1, 1, 0.5, -0.0,
    1e-320, 1e308, -1e308, math.nan, math.inf, -math.inf, *HUGE, *(-number for number in HUGE), [[[[]]]], "\x00", "\ud800",
)  # fmt: skip
NAMES = (
    "", " ", "x" * 100_000, "\x1b[31mred\x1b[0m\x1b]0;title\x07", "[bold red]x[/]", "[/]", "</script><script>alert(1)</script>",
    "<!--", "\u202etxt.exe", "\u2028", "a\nb\r\tc", "\x00", "`rm -rf`|a|b", "=1+1", "ProfilerStep#", "ProfilerStep#-1",
    "ProfilerStep#99999999999999999999", "ProfilerStep#1", "ProfilerStep#0x1", "ncclDevKernel_AllReduce", "nccl:all_reduce",
    "Memcpy HtoD (Pageable -> Device)", "Memset", "aten::item", "enumerate(DataLoader)#x.__next__", "torch.save", "\ud83d",
    "Python GC", "cudaDeviceSynchronize", "c10d::allreduce_", "gloo:all_reduce", "%s%n{0}{x}", "\U0001d54f" * 300,
)  # fmt: skip
CATEGORIES = (
    "kernel", "Kernel", "gpu_memcpy", "gpu_memset", "cuda_runtime", "cuda_driver", "cpu_op", "user_annotation", "cuda_sync",
    "gpu_user_annotation", "python_function", "ac2g", "Trace", "cpu_instant_event", "overhead", "", "no such", "operator",
)  # fmt: skip
PHASES = ("X", "B", "E", "M", "i", "s", "f", "t", "b", "e", "n", "C", "N", "D", "O", "", "XX", "?", 1, None, ["X"])
FIELDS = ("ph", "cat", "name", "pid", "tid", "ts", "dur", "args", "id", "bp")
ARGUMENTS = (
    "External id", "Record function id", "correlation", "device", "stream", "context", "Collective name", "dtype", "Seq",
    "In msg nelems", "Out msg nelems", "Group size", "Process Group Name", "Process Group Description", "Rank", "Src Rank",
    "Process Group Ranks", "Dst Rank", "bytes", "memory bandwidth (GB/s)", "Input Dims", "Input type", "Sequence number",
    "Fwd thread id", "Python id", "Python parent id", "Addr", "Bytes", "Total Allocated", "graph id", "grid", "block",
)  # fmt: skip
TOP = (
    "schemaVersion", "distributedInfo", "deviceProperties", "baseTimeNanoseconds", "host_name", "trace_id", "traceEvents",
    "traceName", "displayTimeUnit", "record_shapes", "with_stack", "group_trace_id",
)  # fmt: skip
DISTRIBUTED = ("backend", "rank", "world_size", "pg_count", "pg_config")


def value(chance: Random) -> Any:
    """Any of VALUES, for one place only."""
    return deepcopy(chance.choice(VALUES))


def ranks(chance: Random) -> Any:
    """What `Process Group Ranks` may hold."""
    return chance.choice(
        (
            list(range(100_000)), [-1, 0], [0, 0, 0], [10**18, 10**19], "[0, 1, 2]", "[0, ...]", [], {}, [[0], [1]], None, 7,
            "[" * 50, [0.5, "1"], str(list(range(20_000))), [True, False], "0, 1", [math.nan],
        )
    )  # fmt: skip


def dumped(tree: object) -> bytes:
    """JSON text; NaN and Infinity stay as Python writes them, lone surrogates as escapes."""
    return json.dumps(tree).encode()


def _file(events: object, **keys: object) -> bytes:
    return dumped({"schemaVersion": 1, **keys, "traceEvents": events})


def _kernel(at: float, dur: float, **args: object) -> Event:
    ids = {"device": 0, "stream": 7, "correlation": 1, **args}
    return {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": at, "dur": dur, "args": ids}


def _step(number: object, at: float, dur: float) -> Event:
    name = f"ProfilerStep#{number}"
    return {"ph": "X", "cat": "user_annotation", "name": name, "pid": 9, "tid": 9, "ts": at, "dur": dur, "args": {}}


def _nested(depth: int) -> bytes:
    return b'{"traceEvents": [{"ph": "X", "args": ' + b'{"a": ' * depth + b"1" + b"}" * depth + b"}]}"


FILES: tuple[Callable[[], bytes], ...] = (
    lambda: b"",
    lambda: b" \n\t ",
    lambda: b"{",
    lambda: b"{}",
    lambda: b"[]",
    lambda: b"null",
    lambda: b'"traceEvents"',
    lambda: b"1e999",
    lambda: b"\xef\xbb\xbf" + _file([_kernel(1, 2)]),
    lambda: _file([_kernel(1, 2)]).decode().encode("utf-16"),
    lambda: _file([_kernel(1, 2)]).decode().encode("utf-16-le"),
    lambda: _file([_kernel(1, 2)]).decode().encode("utf-32"),
    lambda: b"\x00" * 10_000,
    lambda: b"\xff" * 10_000,
    lambda: gzip.compress(b""),
    lambda: gzip.compress(gzip.compress(_file([_kernel(1, 2)]))),
    lambda: gzip.compress(_file([_kernel(1, 2)])) * 3,
    lambda: gzip.compress(_file([_kernel(1, 2)])) + b"rubbish",
    lambda: gzip.compress(b" " * 400_000_000, 9),
    lambda: gzip.compress(b'{"traceEvents": [' + b"[" * 50_000_000, 1),
    lambda: gzip.compress(b'{"traceEvents": [{"ph": "X", "name": "' + b"x" * 100_000_000, 1),
    lambda: b"\x1f\x8b",
    lambda: b"\x1f\x8b\x08\x00" + b"\x00" * 50,
    lambda: _nested(100),
    lambda: _nested(10_000),
    lambda: _nested(1_000_000),
    lambda: b"[" * 1_000_000,
    lambda: b'{"a":' * 300_000,
    lambda: _file(None),
    lambda: _file({}),
    lambda: _file("X"),
    lambda: _file([]),
    lambda: _file([None, 1, "a", [], {}, True]),
    lambda: _file([_kernel(1, 2)]),
    lambda: _file([_kernel(1, 2)] * 5_000),
    lambda: _file([_kernel(0, 0)] * 100),
    lambda: _file([_step(1, 0, 10)]),
    lambda: _file([_step(number, 10 - number, 1) for number in range(10)]),
    lambda: _file([_step(3, at, 100) for at in range(10)]),
    lambda: _file([_step(number, number, 100 - 2 * number) for number in range(20)]),
    lambda: _file([_step(10**18 + n, 10 * n, 10) for n in range(3)] + [_kernel(5, 20)]),
    lambda: _file([_step("", 1, 2), _step("x", 2, 3), _step("-3", 1, 1), _step("1.5", 1, 2), _kernel(1, 2)]),
    lambda: _file([_step(n, 10 * n, 10) for n in range(20_000)]),
    lambda: _file([_kernel(at, 5, device=at, stream=at) for at in range(300)], deviceProperties=[{"id": 0, "name": "x"}]),
    lambda: _file([_kernel(1, 2, device="0", stream="7", correlation="x"), _kernel(2, 3, device=-1, stream=-7)]),
    lambda: _file([_kernel(2**62, 2**62), _kernel(-(2**62), 2**63)]),
    lambda: _file([_kernel(1e15, 1e300), _kernel(1e300, 1)]),
    lambda: _file([_kernel(10, 1, name=n) for n in range(1000)], baseTimeNanoseconds=10**30),
    lambda: _file([_kernel(10, 1)], baseTimeNanoseconds=-(2**63), distributedInfo={"rank": -5, "world_size": 0}),
    lambda: _file([_kernel(10, 1)], distributedInfo={"rank": 10**12, "world_size": 10**12}),
    lambda: _file([_kernel(10, 1)], distributedInfo={"rank": 2, "world_size": 1_000_000}),
    lambda: _file([_kernel(10, 1)], distributedInfo={"rank": 1, "world_size": 1}),
    lambda: _file([_kernel(10, 1)], distributedInfo=[1], deviceProperties={"id": 1}),
    lambda: _file([_kernel(10, 1)]).replace(b"gemm", b'a "quoted" C:\\Users\\x \\q \\u12'),
    lambda: _file([_kernel(10, 1)]).replace(b'"dur": 1', b'"dur": ' + b"9" * 100_000),
    lambda: _file([_kernel(10, 1)]).replace(b'"dur": 1', b'"dur": 0x10, "dur": 1.2.3'),
    lambda: _file([_kernel(10, 1)]).replace(b'"gemm"', b'"\xff\xfe\x80"'),
    lambda: _file([{**_kernel(n, 1), "name": f"kernel {n}"} for n in range(100_000)]),
    lambda: b"<html><script>alert(1)</script></html>",
    lambda: b"\x80\x04\x95cposix\nsystem\n",
)  # fmt: skip
