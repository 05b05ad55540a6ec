"""Device events as Holistic Trace Analysis (HTA) holds them: which it keeps, what it calls them, how it rounds them.

Every event is rounded inwards to whole microseconds, so that one shorter than that ends before it begins. Source: HTA
0.6.1, read for its definitions; nothing of it is used here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from rankscope.analyzers.intervals import Bools, Ints
from rankscope.analyzers.one_rank import host_kind
from rankscope.analyzers.one_rank.hygiene import set_aside
from rankscope.analyzers.one_rank.launches import launches
from rankscope.analyzers.one_rank.peers import hta_communication, hta_compute, hta_memory
from rankscope.analyzers.one_rank.steps import Marks, marks
from rankscope.analyzers.trace.model import Trace
from rankscope.analyzers.trace.tables import DeviceEvents, OtherEvents, RuntimeCalls

COMPUTATION, COMMUNICATION, MEMORY, OTHER = range(4)
KINDS: Final = ("COMPUTATION", "COMMUNICATION", "MEMORY", "OTHER")
_LAUNCH: Final = re.compile(
    r"cudaLaunchKernel(?:ExC)?|cudaMem(?:cpy|set)Async|runFunction - job_prep_and_submit_for_execution"
)


@dataclass(frozen=True, slots=True)
class Held:
    """Device events by row, in nanoseconds; `called` to `returned` is the call that launched one, where `launched`.

    `launching`: the call is a launch by its name. `synchronisation`: rows that say when one was over; HTA has them among
    its kernels.
    """

    start: Ints
    end: Ints
    name_id: Ints
    kind: Ints
    stream: Ints
    launched: Bools
    called: Ints
    returned: Ints
    launching: Bools
    synchronisation: Bools

    def __len__(self) -> int:
        return len(self.start)

    def of(self, *kinds: int) -> tuple[Ints, Ints]:
        """Begins and ends of the events of these kinds; of all of them without any."""
        rows = np.isin(self.kind, kinds or range(len(KINDS)))
        return self.start[rows], self.end[rows]


def held(trace: Trace, *, last_step: bool, rounded: bool) -> Held:
    """The device events that HTA keeps; not `rounded`, its definition in whole nanoseconds, without synchronisations.

    With two or more steps those launched, by a call in the file, before the last one (or by its end with `last_step`,
    its `include_last_profiler_step`); else all.
    """
    events, calls, others = trace.get(DeviceEvents), trace.get(RuntimeCalls), trace.get(OtherEvents)
    hygiene = set_aside(trace)
    joined = launches(trace, hygiene)
    begun = np.ceil(_microseconds(joined.at_ns))
    limit = _limit(marks(trace, hygiene), last_step)
    kept = np.ones(len(events), np.bool_)
    if limit is not None:
        kept = joined.launched & ((begun <= limit) if last_step else (begun < limit))
    rows = np.flatnonzero(kept)
    waits = _on_streams(trace) if rounded and limit is None else np.empty(0, np.int64)
    waiting, nowhere = np.arange(len(rows) + len(waits)) >= len(rows), np.zeros(len(waits), np.int64)
    start, end = _rounded(
        np.concatenate((events.start_ns[rows], others.start_ns[waits])),
        np.concatenate((events.dur_ns[rows], others.dur_ns[waits])),
        rounded,
    )
    named = host_kind.where(calls.name_id, trace.names, lambda name: _LAUNCH.fullmatch(name) is not None)
    called, returned, launching = (
        np.concatenate((column[joined.row[rows]] if len(column) else np.zeros(len(rows), np.int64), nowhere))
        for column in (*_rounded(calls.start_ns, calls.dur_ns, rounded), named.astype(np.int64))
    )
    launched = np.concatenate((joined.launched[rows], nowhere.astype(np.bool_)))
    name_id = np.concatenate((events.name_id[rows], others.name_id[waits]))
    stream = np.concatenate((events.stream[rows], others.ints("tid")[waits]))
    kind = kinds_of(name_id, trace)
    return Held(start, end, name_id, kind, stream, launched, called, returned, launched & (launching == 1), waiting)


def kinds_of(name_id: Ints, trace: Trace) -> Ints:
    """What HTA calls device events of these names."""
    names = trace.names
    communication, memory = hta_communication(name_id, names), hta_memory(name_id, names)
    return np.select((communication, memory, hta_compute(name_id, names)), (COMMUNICATION, MEMORY, COMPUTATION), OTHER)


def synchronisations(trace: Trace) -> int:
    """Rows on device tracks that say when a synchronisation was over."""
    return int(_is_synchronisation(trace).sum())


def _is_synchronisation(trace: Trace) -> Bools:
    return host_kind.where(trace.get(OtherEvents).cat_id, trace.names, "cuda_sync".__eq__)


def _on_streams(trace: Trace) -> Ints:
    """Synchronisation rows that name a stream."""
    others = trace.get(OtherEvents)
    return np.flatnonzero(_is_synchronisation(trace) & others.valid("tid") & (others.ints("tid") >= 0))


def _limit(found: Marks, last_step: bool) -> float | None:
    """Begin, or end, of the last step in microseconds, rounded as all times are; None with fewer than two."""
    if len(found.number) < 2:
        return None
    start, end = _rounded(found.start, found.end - found.start, True)
    return float((end if last_step else start).max() // 1000)


def _rounded(start_ns: Ints, dur_ns: Ints, rounded: bool) -> tuple[Ints, Ints]:
    """Begins and ends; if `rounded` as HTA has them: added as floating-point microseconds, then rounded inwards."""
    if not rounded:
        return start_ns, start_ns + dur_ns
    start = _microseconds(start_ns)
    begin, end = np.ceil(start), np.floor(start + _microseconds(dur_ns))
    return begin.astype(np.int64) * 1000, end.astype(np.int64) * 1000


def _microseconds(ns: Ints) -> npt.NDArray[np.float64]:
    """The floats that a reader of JSON gets for these times: the nearest to the written decimals."""
    return np.array([value / 1000 for value in ns.tolist()], np.float64)
