"""What the training loop does to its own device: the optimizer, zeroed gradients, compilation, loops over an index.

Host ranges of one process, found in one pass over the names of its events.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from rankscope.analyzers.intervals import EMPTY, Bools, Ints, Spans, union
from rankscope.analyzers.one_rank.host_activity import HostActivity
from rankscope.analyzers.one_rank.hygiene import Hygiene
from rankscope.analyzers.trace.model import Trace
from rankscope.analyzers.trace.tables import HostEvents, OtherEvents, PythonFunctions

OPTIMIZER, SINGLE_TENSOR, MANY_TENSORS, ZERO_GRAD, ZERO, COMPILE, SELECT, CPU_COLLECTIVE = range(1, 9)
DDP, FSDP, DATA_PARALLEL = "DistributedDataParallel", "FSDP", "DataParallel"
REPEATS: Final = 10  # of one pattern of operators; source: torch.profiler's ForLoopIndexingPattern
LONGEST: Final = 8  # top-level operators of one iteration (ours): a layer of a model has more

# Optimizers of torch that have a foreach implementation.
_OPTIMIZER: Final = re.compile(
    r"Optimizer\.step#(?:Adam|AdamW|Adagrad|Adadelta|Adamax|ASGD|NAdam|RAdam|RMSprop|Rprop|SGD|Adafactor)\.step$"
)
_ZERO_GRAD: Final = re.compile(r"Optimizer\.zero_grad#\w+\.zero_grad$")
_COMPILED_FRAME: Final = re.compile(r"torch/_dynamo/convert_frame\.py\(\d{1,9}\): (?:_compile|compile_inner)$")
_WRAPPERS: Final = (
    (DDP, re.compile(r"DistributedDataParallel\.forward|torch(?:\.|::)distributed(?:\.ddp)?(?:\.|::)reducer")),
    (FSDP, re.compile(r"(?:FSDP|fsdp)::|FullyShardedDataParallel")),
    (DATA_PARALLEL, re.compile(r"DataParallel\.forward$")),
)
_STEPPED: Final = frozenset(f"aten::{name}_" for name in ("add", "sub", "mul", "addcmul", "addcdiv", "lerp"))
_LOADING: Final = "Loading"  # of CUDA modules: the run's own, not the profiler's


@dataclass(frozen=True, slots=True)
class TrainingRanges:
    """Spans are sets of nanoseconds of the training thread unless said otherwise; starts are begins of events there."""

    optimizer: Spans
    zero_grad: Spans
    compiling: Spans  # any thread
    loops: Spans  # the same few operators around `aten::select`, over and over
    cpu_collectives: Spans  # in flight on a CPU backend, any thread
    profiler: Spans  # the profiler's own overhead, any thread
    single_tensor: Ints  # begins of in-place operators on one parameter, inside the optimizer
    many_tensors: Ints  # begins of operators on all parameters at once
    zeroed: Ints  # begins of `aten::zero_` inside zero_grad
    compiles: Ints
    iterations: Ints  # begins of the loops' iterations
    wrappers: tuple[str, ...]  # DDP, FSDP, DATA_PARALLEL: which of them wrap the model
    has_profiler: bool


def training_ranges(trace: Trace, hygiene: Hygiene, host: HostActivity) -> TrainingRanges:
    """Find the ranges. Cost: one look-up per host event, and a sort of the operators where `aten::select` repeats."""
    events = trace.get(HostEvents)
    codes, wrappers = _codes(trace, events)
    rows = np.flatnonzero(codes)
    rows = rows[hygiene.kept(HostEvents)[rows]]
    start, code = events.start_ns[rows], codes[rows]
    end = start + events.dur_ns[rows]
    main = events.tid[rows] == (-1 if host.main_tid is None else host.main_tid)

    def spans(which: int, on: Bools | None = None) -> Spans:
        found = code == which if on is None else (code == which) & on
        return union(Spans(start[found], end[found])) if found.any() else EMPTY

    def begins(which: int, inside: Spans) -> Ints:
        return _inside(start[(code == which) & main], inside)

    optimizer, zero_grad = spans(OPTIMIZER, main), spans(ZERO_GRAD, main)
    traced = _traced_compiles(trace)
    compiling = union(spans(COMPILE), traced)
    loops, iterations = _loops(trace, events, rows[(code == SELECT) & main])
    overhead = _overhead(trace, hygiene)
    return TrainingRanges(
        optimizer=optimizer,
        zero_grad=zero_grad,
        compiling=compiling,
        loops=loops,
        cpu_collectives=spans(CPU_COLLECTIVE),
        profiler=union(overhead),
        single_tensor=begins(SINGLE_TENSOR, optimizer),
        many_tensors=begins(MANY_TENSORS, optimizer),
        zeroed=begins(ZERO, zero_grad),
        compiles=compiling.start,
        iterations=iterations,
        wrappers=wrappers,
        has_profiler=overhead.size > 0,
    )


def _code(name: str) -> int:
    if name in _STEPPED:
        return SINGLE_TENSOR
    plain = {"aten::zero_": ZERO, "aten::select": SELECT}.get(name, 0)
    if plain or name.startswith("aten::"):
        return plain or (MANY_TENSORS if name.startswith(("aten::_foreach_", "aten::_fused_")) else 0)
    if name.startswith("gloo:"):
        return CPU_COLLECTIVE
    if _is_compilation(name):
        return COMPILE
    patterns = ((OPTIMIZER, _OPTIMIZER), (ZERO_GRAD, _ZERO_GRAD))
    return next((code for code, pattern in patterns if pattern.match(name)), 0)


def _is_compilation(name: str) -> bool:
    """A range of torch.compile at work: `entire_frame_compile (dynamo_timed)`, or its frame in a Python stack."""
    timed = name.endswith(" (dynamo_timed)") and "compile" in name
    return timed or "CachingAutotuner.benchmark" in name or _COMPILED_FRAME.match(name) is not None


def _codes(trace: Trace, events: HostEvents) -> tuple[npt.NDArray[np.int8], tuple[str, ...]]:
    """The code of each host event, and the wrappers whose names appear."""
    if not len(events):
        return np.zeros(0, np.int8), ()
    present: list[int] = np.flatnonzero(np.bincount(events.name_id)).tolist()
    table = np.zeros(present[-1] + 1, np.int8)
    wrappers: dict[str, None] = {}
    for position in present:
        name = trace.names[position]
        table[position] = _code(name)
        if not name.startswith("aten::"):
            wrappers |= {wrapper: None for wrapper, pattern in _WRAPPERS if pattern.match(name)}
    return table[events.name_id], tuple(wrappers)


def _inside(times: Ints, spans: Spans) -> Ints:
    if not spans.size or not len(times):
        return np.empty(0, np.int64)
    at = np.searchsorted(spans.start, times, "right") - 1
    return times[(at >= 0) & (times < spans.end[np.maximum(at, 0)])]


def _traced_compiles(trace: Trace) -> Spans:
    """Compilation as Python stacks show it."""
    calls = trace.get(PythonFunctions)
    if not len(calls):
        return EMPTY
    present: list[int] = np.flatnonzero(np.bincount(calls.name_id)).tolist()
    ids = [position for position in present if _is_compilation(trace.names[position])]
    rows = np.flatnonzero(np.isin(calls.name_id, ids)) if ids else np.empty(0, np.int64)
    return union(Spans(calls.start_ns[rows], calls.start_ns[rows] + calls.dur_ns[rows]))


def _overhead(trace: Trace, hygiene: Hygiene) -> Spans:
    """Rows of category `overhead`, as they come; loading of CUDA modules is the run's own."""
    events = trace.get(OtherEvents)
    ids = [i for i in np.unique(events.cat_id).tolist() if trace.names[i].lower() == "overhead"]
    rows = np.flatnonzero(np.isin(events.cat_id, ids) & hygiene.kept(OtherEvents)) if ids else np.empty(0, np.int64)
    rows = rows[np.array([_LOADING not in trace.names[i] for i in events.name_id[rows].tolist()], np.bool_)]
    return Spans(events.start_ns[rows], events.start_ns[rows] + events.dur_ns[rows])


def _loops(trace: Trace, events: HostEvents, selects: Ints) -> tuple[Spans, Ints]:
    """Where one short sequence of top-level operators that holds `aten::select` is repeated REPEATS times or more.

    Returns the loops, and the begin of each iteration. `selects`: rows of `aten::select` on the training thread.
    """
    nothing = EMPTY, np.empty(0, np.int64)
    if len(selects) < REPEATS:
        return nothing
    tid = events.tid[selects[0]]
    low, high = events.start_ns[selects].min(), events.start_ns[selects].max()
    rows = np.flatnonzero((events.tid == tid) & (events.start_ns >= low) & (events.start_ns <= high))
    present: list[int] = np.unique(events.name_id[rows]).tolist()
    operators = np.zeros(present[-1] + 1, np.bool_)
    operators[[i for i in present if trace.names[i].startswith("aten::")]] = True
    rows = rows[operators[events.name_id[rows]]]
    start = events.start_ns[rows]
    end = start + events.dur_ns[rows]
    order = np.lexsort((-end, start))
    reach = np.maximum.accumulate(end[order])
    top = order[np.concatenate(([True], end[order][1:] > reach[:-1]))]
    name, begin, stop = events.name_id[rows][top], start[top], end[top]
    at = np.flatnonzero(np.isin(rows[top], selects))
    if len(at) < REPEATS:
        return nothing
    repeated = _repeated(name, at)
    runs = _runs(repeated)
    long = [(a, b) for a, b in runs if b - a + 1 >= REPEATS]
    if not long:
        return nothing
    first = [begin[at[a]] for a, _ in long]
    last = [stop[at[b]] for _, b in long]
    iterations = np.concatenate([begin[at[a : b + 1]] for a, b in long])
    return union(Spans(np.array(first, np.int64), np.array(last, np.int64))), iterations


def _repeated(name: Ints, at: Ints) -> Bools:
    """Whether the operators from select i to select i + 1 are those from i + 1 to i + 2; one value a pair of pairs."""
    gap = np.diff(at)
    alike: Bools = (gap[1:] == gap[:-1]) & (gap[1:] <= LONGEST)
    for length in np.unique(gap[:-1][alike]).tolist():
        same = np.concatenate(([0], np.cumsum(name[:-length] == name[length:])))
        mine = np.flatnonzero(alike & (gap[:-1] == length))
        alike[mine] = same[at[mine] + length] - same[at[mine]] == length
    return alike


def _runs(alike: Bools) -> list[tuple[int, int]]:
    """First and last select of each unbroken run of alike iterations."""
    edges = np.diff(np.concatenate(([0], alike.astype(np.int8), [0])))
    return list(zip(np.flatnonzero(edges == 1).tolist(), (np.flatnonzero(edges == -1) + 1).tolist(), strict=True))
