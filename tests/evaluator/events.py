"""What one trace file says, read again without any of the code under test: json, Decimal and plain Python.

Written from docs/accounting.md alone. Times are integer nanoseconds as written in the file.
"""

from __future__ import annotations

import gzip
import json
import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import ROUND_HALF_EVEN, Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

HOST = {"cpu_op", "user_annotation", "Operator"}
CALLS = {"cuda_runtime", "cuda_driver", "Runtime", "mtia_runtime"}
KERNELS, COPIES = {"kernel", "Kernel", "mtia_ccp_events"}, {"gpu_memcpy", "gpu_memset", "Memcpy", "Memset"}
COMMUNICATION = [
    "nccldevkernel",
    "ncclkernel",
    "ncclsymk",
    "rccl",
    "hccl",
    "oneccl",
    "nvshmem",
    "deep_ep",
    "notify_dispatch",
    "notify_combine",
    "multimem_",
    "cross_device_reduce",
    "mscclpp",
]
MARK = re.compile(r"ProfilerStep#(\d+)")
LOADER = re.compile(r"enumerate\(DataLoader\)#\w*\.__next__")
SYNCHRONISE = re.compile(r"(cuda|hip)(Stream|Device|Event)Synchronize|(cuda|hip)Memcpy(WithStream)?")
ALLOCATOR = re.compile(r"(cuda|hip)(Host)?(Malloc|Free|Alloc)\w*")
ITEMS = {"aten::item", "aten::_local_scalar_dense"}


@dataclass(eq=False)
class Event:
    """A timed event. `launch`: begin and thread of the call that asked for it; None: not in the file."""

    name: str
    cat: str
    start: int
    end: int
    pid: int
    tid: Any
    args: dict[str, Any]
    kind: str = ""
    device: int = 0
    stream: Any = 0
    launch: tuple[int, int] | None = None
    early: bool = False
    last: int = 0  # position in the file

    @property
    def asked(self) -> float:
        """When the host asked: before everything when early, by the clock when nobody knows."""
        return self.launch[0] if self.launch else (float("-inf") if self.early else self.start)


@dataclass
class File:
    """One rank's file, cleaned."""

    rank: int | None
    timed: list[Event]  # kept
    device: dict[int, list[Event]]  # work, by device, in order of start
    aside: dict[int, list[int]]  # starts of device events set aside
    set_aside: int
    marks: list[tuple[int, int, int]]  # number, begin, end
    thread: Any  # carries the marks
    main: Any  # the same, or the busiest thread of the host where there are no marks
    host: dict[str, list[Event]] = field(default_factory=dict)  # loader, checkpoint, gc, allocator, blocking

    @property
    def extent(self) -> tuple[int, int]:
        """First begin and last end of the timed events."""
        return min(e.start for e in self.timed), max(e.end for e in self.timed)


def ns(value: Any) -> int:
    """Microseconds to nanoseconds."""
    return int((Decimal(value) * 1000).to_integral_value(ROUND_HALF_EVEN))


def read(path: Path) -> File:
    """Read and clean one file."""
    data = path.read_bytes()
    text = (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode("utf-8", "replace")
    whole = json.loads(text, parse_float=Decimal, strict=False)
    entries = whole if isinstance(whole, list) else whole["traceEvents"]
    head = {} if isinstance(whole, list) else whole
    return cleaned((head.get("distributedInfo") or {}).get("rank"), entries)


def cleaned(rank: int | None, entries: Iterable[dict[str, Any]]) -> File:
    """The timed events without what is set aside, told apart."""
    timed = []
    for position, e in enumerate(entries):
        if e.get("ph") != "X" or not isinstance(e.get("pid"), int) or e.get("cat") in ("Trace", "gpu_user_annotation"):
            continue
        start, args = ns(e["ts"]), e.get("args") or {}
        event = Event(e["name"], e.get("cat", ""), start, start + ns(e.get("dur", 0)), e["pid"], e.get("tid"), args)
        event.last = position
        if event.cat in KERNELS | COPIES:
            event.device = args.get("device", args.get("inDevice", event.pid))
            event.stream = args.get("stream", event.tid)
            event.kind = kind_of(event)
        timed.append(event)
    bad = impossible(timed)
    kept = [e for e in timed if id(e) not in bad]
    aside: dict[int, list[int]] = defaultdict(list)
    for event in timed:
        if event.kind and id(event) in bad:
            aside[event.device].append(event.start)
    join_launches(kept)
    work: dict[int, list[Event]] = defaultdict(list)
    for event in sorted((e for e in kept if e.kind and e.kind != "nothing"), key=lambda e: e.start):
        work[event.device].append(event)
    marks, thread = step_marks(kept)
    file = File(rank, kept, dict(sorted(work.items())), aside, len(bad), marks, thread, thread)
    if thread is None:
        file.main = busiest(kept)
    file.host = activities(kept)
    return file


def kind_of(event: Event) -> str:
    """compute, communication, device_copy, host_to_device, device_to_host or nothing."""
    name, args = event.name, event.args
    if "Collective name" in args or any(text in name.lower() for text in COMMUNICATION):
        return "communication"
    if event.cat == "mtia_ccp_events":
        return {"pe_exe": "compute", "dma_request": "device_copy"}.get(name, "nothing")
    if event.cat in KERNELS:
        return "compute"
    if "PtoP" in name or args.get("fromDevice", 0) != args.get("toDevice", args.get("fromDevice", 0)):
        return "communication"
    if "HtoD" in name or "HostToDevice" in name:
        return "host_to_device"
    return "device_to_host" if "DtoH" in name or "DeviceToHost" in name or "HtoH" in name else "device_copy"


def impossible(timed: list[Event]) -> set[int]:
    """Identities of the events whose time is impossible."""
    positive = [e.start for e in timed if e.start > 0]
    far = bool(positive) and min(positive) > max(positive) - min(positive)
    bad = {id(e) for e in timed if e.end < e.start or (far and e.start <= 0)}
    seen: set[str] = set()
    for e in timed:
        if id(e) in bad or not (e.kind or {"External id", "external id", "correlation", "Python id"} & set(e.args)):
            continue
        text = json.dumps([e.name, e.cat, e.start, e.end, e.pid, e.tid, e.args], sort_keys=True, default=str)
        if text in seen:
            bad.add(id(e))
        seen.add(text)
    return bad | absurd([e for e in timed if e.kind and id(e) not in bad])


def absurd(device: list[Event]) -> set[int]:
    """Over ten times the 99th percentile of the others of the name (at least 1 us), swallowing two later starts."""
    names, streams = defaultdict(list), defaultdict(list)
    for e in device:
        names[e.name].append(e.end - e.start)
        streams[e.device, e.stream].append(e.start)
    for values in (*names.values(), *streams.values()):
        values.sort()
    bad = set()
    for e in device:
        starts, others = streams[e.device, e.stream], names[e.name]
        if len(others) < 2 or count_between(starts, e.start, e.end) < 2:
            continue
        rest = list(others)
        rest.remove(e.end - e.start)
        place = Fraction(99, 100) * (len(rest) - 1)
        low = int(place)
        high = min(low + 1, len(rest) - 1)
        percentile = rest[low] + (rest[high] - rest[low]) * (place - low)
        if e.end - e.start > 10 * max(percentile, 1000):
            bad.add(id(e))
    return bad


def count_between(ordered: list[int], after: int, before: int) -> int:
    """How many lie strictly between."""
    from bisect import bisect_left, bisect_right

    return max(bisect_left(ordered, before) - bisect_right(ordered, after), 0)


def join_launches(kept: list[Event]) -> None:
    """Each device event's launch, through `correlation`; what was launched before the capture."""
    calls: dict[int, Event] = {}
    for e in kept:
        if e.cat in CALLS and e.args.get("correlation", 0) > 0:
            known = calls.setdefault(e.args["correlation"], e)
            if e.start < known.start:
                calls[e.args["correlation"]] = e
    first: dict[Any, int] = {}
    for e in (e for e in kept if e.kind):
        call = calls.get(e.args.get("correlation", 0))
        if call:
            e.launch = call.start, call.tid
            first[e.device, e.stream] = min(e.start, first.get((e.device, e.stream), e.start))
    for e in (e for e in kept if e.kind and not e.launch):
        e.early = e.start < first.get((e.device, e.stream), e.start + 1)


def step_marks(kept: list[Event]) -> tuple[list[tuple[int, int, int]], Any]:
    """Number, begin and end of each mark, on the thread that has most of them."""
    found = [e for e in kept if e.cat in HOST and MARK.fullmatch(e.name)]
    if not found:
        return [], None
    threads = sorted({e.tid for e in found})
    thread = max(threads, key=lambda tid: sum(e.tid == tid for e in found))
    marks: dict[int, tuple[int, int]] = {}
    for e in sorted((e for e in found if e.tid == thread), key=lambda e: e.start):
        marks.setdefault(int(e.name.split("#")[1]), (e.start, e.end))
    return sorted(((n, *at) for n, at in marks.items()), key=lambda mark: mark[1]), thread


def busiest(kept: list[Event]) -> Any:
    """The thread with most runtime calls, else with most operators and annotations."""
    for cats in (CALLS, HOST):
        counts: dict[Any, int] = defaultdict(int)
        for e in kept:
            if e.cat in cats:
                counts[e.tid] += 1
        if counts:
            return max(sorted(counts), key=lambda tid: counts[tid])
    return None


def activities(kept: list[Event]) -> dict[str, list[Event]]:
    """What the host does, by the words of the accounting."""
    found: dict[str, list[Event]] = defaultdict(list)
    for e in kept:
        range_ = e.cat in HOST or e.cat == "python_function"
        if range_ and (LOADER.fullmatch(e.name) or e.name == "rankscope.data"):
            found["loader"].append(e)
        elif range_ and is_checkpoint(e.name):
            found["checkpoint"].append(e)
        elif range_ and e.name in ("Python GC", "rankscope.gc"):
            found["gc"].append(e)
        elif e.cat in CALLS and ALLOCATOR.fullmatch(e.name):
            found["allocator"].append(e)
        elif (e.cat in CALLS and SYNCHRONISE.fullmatch(e.name)) or (e.cat in HOST and e.name in ITEMS):
            found["blocking"].append(e)
    return found


def is_checkpoint(name: str) -> bool:
    """A range that saves or loads a checkpoint."""
    inside = re.search(r"torch\.distributed\.checkpoint\S*\.(save|load|async_save)\b", name)
    return bool("torch.save" in name or inside or "rankscope.checkpoint" in name)
