"""What the host's threads were doing, as sets of nanoseconds: the claims on a starved device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from rankscope.analyzers.intervals import EMPTY, Bools, Ints, Spans, union
from rankscope.analyzers.one_rank import host_kind
from rankscope.analyzers.one_rank.hygiene import Hygiene
from rankscope.analyzers.trace.model import Trace
from rankscope.analyzers.trace.tables import HostEvents, PythonFunctions, RuntimeCalls


@dataclass(frozen=True, slots=True)
class Activity:
    """Rows of one host table that pass a test, with their threads."""

    start: Ints
    end: Ints
    tid: Ints
    name_id: Ints

    def on(self, tid: int | None) -> Spans:
        """The nanoseconds of one thread, as a set."""
        mine = self.tid == tid if tid is not None else np.zeros(len(self.tid), np.bool_)
        return union(Spans(self.start[mine], self.end[mine])) if mine.any() else EMPTY


@dataclass(frozen=True)
class HostActivity:
    """The activities the accounting tells apart.

    Loader, checkpoint and GC count on the thread that carries the step marks.
    """

    loader: Activity
    checkpoint: Activity
    gc: Activity
    allocator: Activity
    blocking: Activity
    main_tid: int | None
    _blocking_by_tid: dict[int, Spans] = field(default_factory=dict)

    def blocking_on(self, tid: int) -> Spans:
        """When this thread was inside a blocking call."""
        if tid not in self._blocking_by_tid:
            self._blocking_by_tid[tid] = self.blocking.on(tid)
        return self._blocking_by_tid[tid]


def host_activity(
    trace: Trace, hygiene: Hygiene, marks_tid: int | None, checkpoint: tuple[str, ...] = ()
) -> HostActivity:
    """Collect the activities of one process; `checkpoint`: literal texts that mark more checkpoint ranges."""

    def ranges(test: Callable[[str], bool]) -> Activity:
        return _join(_rows(trace, hygiene, HostEvents, test), _rows(trace, hygiene, PythonFunctions, test))

    return HostActivity(
        loader=ranges(host_kind.is_loader),
        checkpoint=ranges(lambda name: host_kind.is_checkpoint(name, checkpoint)),
        gc=ranges(host_kind.is_gc),
        allocator=_rows(trace, hygiene, RuntimeCalls, host_kind.is_allocator_call),
        blocking=_join(
            _rows(trace, hygiene, RuntimeCalls, host_kind.is_blocking_call),
            _rows(trace, hygiene, HostEvents, host_kind.ITEM_OPERATORS.__contains__),
        ),
        main_tid=marks_tid if marks_tid is not None else _busiest_thread(trace, hygiene),
    )


def _rows(
    trace: Trace,
    hygiene: Hygiene,
    table: type[HostEvents] | type[PythonFunctions] | type[RuntimeCalls],
    test: Callable[[str], bool],
) -> Activity:
    events = trace.get(table)
    found = host_kind.where(events.ints("name_id"), trace.names, test)
    rows: Bools | Ints = np.flatnonzero(found & hygiene.kept(table)) if found.any() else np.empty(0, np.int64)
    start = events.ints("start_ns")[rows]
    end = start + events.ints("dur_ns")[rows]
    return Activity(start, end, events.ints("tid")[rows], events.ints("name_id")[rows])


def _join(a: Activity, b: Activity) -> Activity:
    return Activity(
        np.concatenate((a.start, b.start)),
        np.concatenate((a.end, b.end)),
        np.concatenate((a.tid, b.tid)),
        np.concatenate((a.name_id, b.name_id)),
    )


def _busiest_thread(trace: Trace, hygiene: Hygiene) -> int | None:
    """Without marks: the thread with most runtime calls, else with most operators."""
    for table in (RuntimeCalls, HostEvents):
        tids = trace.get(table).ints("tid")[hygiene.kept(table)]
        if len(tids):
            values, counts = np.unique(tids, return_counts=True)
            return int(values[np.argmax(counts)])
    return None
