"""Small runs drawn at random, in which everything that can coincide does: times are a few hundred nanoseconds."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

from contract.layout import text
from contract.writer import COPIES, Rank
from hypothesis import strategies as st

LONG = 300  # ns; the length of a run
CALLS = {"allocator": ("cudaMalloc", "cudaFree"), "blocking": ("cudaStreamSynchronize", "cudaEventSynchronize")}
RANGES = {
    "loader": ("user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"),
    "checkpoint": ("user_annotation", "torch.save"),
    "gc": ("python_function", "Python GC"),
    "item": ("cpu_op", "aten::item"),
    "operator": ("cpu_op", "aten::add"),
    "wrapper": ("cpu_op", "autograd::engine::evaluate_function: MmBackward0"),
}
ON_DEVICE = ("launch", "graph", "orphan", "copy", "lone", "projection", "sync_row")
DAMAGE = ("duplicate", "negative", "swallower", "zero")
NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
moment, length = st.integers(0, LONG), st.one_of(st.integers(0, 12), st.integers(0, 90))


@dataclass(frozen=True)
class Happening:
    """One thing that happens on a rank; `choice` picks a thread, a stream, a kind of copy, ..."""

    what: str
    at: int
    delay: int
    length: int
    choice: int


def happenings(*what: str, most: int) -> st.SearchStrategy[list[Happening]]:
    """Up to so many of these kinds."""
    one = st.builds(Happening, st.sampled_from(what), moment, length, length, st.integers(0, 5))
    return st.lists(one, max_size=most)


def add(rank: Rank, h: Happening) -> None:
    """Write one thing that happened."""
    begin, end, thread = h.at + h.delay, h.at + h.delay + h.length, rank.pid + h.choice % 2
    if h.what in RANGES:
        category, name = RANGES[h.what]
        external = {} if h.what == "gc" else {"External id": next_id(rank)}
        rank.event(category, name, h.at, h.at + h.length, external, tid=thread)
    elif h.what in CALLS:
        call(rank, CALLS[h.what][h.choice % 2], h.at, h.at + h.length, thread)
    elif h.what in DAMAGE:
        damage(rank, h, begin, end)
    elif h.what in ("projection", "sync_row"):
        category = "gpu_user_annotation" if h.what == "projection" else "cuda_sync"
        rank.event(category, "ProfilerStep#1", begin, end, {"stream": 7}, pid=rank.device, tid=7)
    else:
        on_device(rank, h, begin, end, thread)


def on_device(rank: Rank, h: Happening, begin: int, end: int, thread: int) -> None:
    """Kernels and copies with their launches, or without."""
    correlation = next_id(rank)
    if h.what != "orphan":
        launcher = "cudaGraphLaunch" if h.what == "graph" else "cudaLaunchKernel"
        call(rank, launcher, h.at, h.at + h.choice, thread, correlation)
    kinds = list(COPIES)
    if h.what == "copy":
        kind = kinds[h.choice % len(kinds)]
        where = {"fromDevice": 0, "inDevice": 0, "toDevice": 1} if kind == "PtoP" else {"device": 0}
        category = "gpu_memset" if kind == "Memset" else "gpu_memcpy"
        args = {**where, "stream": 24 + h.choice % 2, "correlation": correlation}
        rank.event(category, COPIES[kind], begin, end, args, pid=0, tid=24 + h.choice % 2)
    elif h.what == "graph":
        for n in range(3):
            kernel(rank, begin + n * h.choice * 4, end + n * h.choice * 4, 7 + n % 2, correlation)
    else:
        kernel(rank, begin, end, 7 + h.choice % 2, correlation, NCCL if h.what == "lone" else "gemm")


def damage(rank: Rank, h: Happening, begin: int, end: int) -> None:
    """Events whose time is impossible."""
    if h.what == "duplicate" and rank.events and h.choice:
        rank.events.append(dict(rank.events[h.length % len(rank.events)]))
    elif h.what == "negative":
        kernel(rank, end, begin - 1, 7, next_id(rank))
    elif h.what == "swallower":
        kernel(rank, begin, begin + 50_000, 7 + h.choice % 2, next_id(rank))
    elif h.what == "zero":
        rank.event(
            "kernel", "gemm", -ORIGIN_NS, -ORIGIN_NS + h.length, {"device": 0, "stream": 7, "correlation": 1}, 0, 7
        )


def next_id(rank: Rank) -> int:
    """An id not used before."""
    rank.last_id += 1
    return rank.last_id


def call(rank: Rank, name: str, start: int, end: int, thread: int, correlation: int | None = None) -> None:
    """A runtime call."""
    args = {"External id": next_id(rank), "correlation": next_id(rank) if correlation is None else correlation}
    rank.event("cuda_runtime", name, start, end, args, tid=thread)


def kernel(rank: Rank, start: int, end: int, stream: int, correlation: int, name: str = "gemm", **args: Any) -> None:
    """A kernel; its launch is the call with its correlation."""
    ids = {"External id": correlation, "device": 0, "stream": stream, "correlation": correlation}
    rank.event("kernel", name, start, end, ids | args, pid=0, tid=stream)


def marked(rank: Rank, bounds: list[int], thread_ends_early: bool) -> None:
    """Step marks between neighbouring bounds; what lies outside is not in any step."""
    for number, (start, end) in enumerate(itertools.pairwise(bounds), 1):
        args = {"External id": next_id(rank)}
        rank.event("user_annotation", f"ProfilerStep#{number}", start, end - thread_ends_early, args)


bounds = st.lists(moment, max_size=4, unique=True).map(sorted)


@st.composite
def device_rank(draw: st.DrawFn) -> str:
    """The file of one rank with one device."""
    rank = Rank(0, 1, device=0)
    marked(rank, draw(bounds), draw(st.booleans()))
    for h in draw(happenings(*ON_DEVICE, *CALLS, *RANGES, most=16)) + draw(happenings(*DAMAGE, most=1)):
        add(rank, h)
    rank.op("aten::empty", draw(moment), LONG)
    return text(rank)


@st.composite
def host_rank(draw: st.DrawFn) -> str:
    """The file of one rank without devices."""
    rank = Rank(0, 1, device=None, backend="gloo")
    marked(rank, draw(bounds), draw(st.booleans()))
    at = 0
    for h in draw(happenings(*RANGES, "gloo", most=14)):
        if h.what == "gloo":
            at += h.delay
            rank.gloo(at, at + h.choice, at + h.choice + h.length)
            at += h.choice + 1
        else:
            add(rank, h)
    rank.op("aten::empty", draw(moment), LONG)
    return text(rank)


ORIGIN_NS = 4_458_000_000_000_000
