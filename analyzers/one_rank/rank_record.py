"""RankRecord: all that one trace file says, small enough to keep for every rank of a run.

`rank_record(trace)` is a pure function of the file: the worker processes run it, the cache keeps its result, and
everything that needs more than one rank (matching, clocks, waits, rules) starts from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from rankscope.analyzers.intervals import Ints, Spans, intersect, subtract
from rankscope.analyzers.measured import Peers
from rankscope.analyzers.one_rank import peers, signals
from rankscope.analyzers.one_rank.collective_records import CollectiveRecords, Interned, device_records, host_records
from rankscope.analyzers.one_rank.device_time import RowTime, device_time
from rankscope.analyzers.one_rank.host_activity import HostActivity, host_activity
from rankscope.analyzers.one_rank.host_time import host_time
from rankscope.analyzers.one_rank.hygiene import Hygiene, set_aside
from rankscope.analyzers.one_rank.launches import DeviceWork, device_work, not_understood
from rankscope.analyzers.one_rank.row_times import (
    AFTER,
    BEFORE,
    PARTS,
    STEP,
    WHOLE,
    Exemplars,
    Exposed,
    KernelTotals,
    RowTimes,
)
from rankscope.analyzers.one_rank.steps import Marks, device_windows, host_windows, marks, timed_extent
from rankscope.analyzers.one_rank.training_ranges import TrainingRanges, training_ranges
from rankscope.analyzers.one_rank.work_signals import work_signals
from rankscope.analyzers.trace.model import Trace, TraceMeta
from rankscope.analyzers.trace.table import Table
from rankscope.analyzers.trace.tables import MemoryEvents, PythonFunctions, RuntimeCalls

T = TypeVar("T", bound=Table)


@dataclass(frozen=True, slots=True)
class RecordOptions:
    """What the user adds to the name tables: literal texts. Part of the cache's key."""

    communication: tuple[str, ...] = ()  # names of device events that communicate
    checkpoint: tuple[str, ...] = ()  # names of ranges that save or load a checkpoint


@dataclass(frozen=True, slots=True)
class RecordFacts:
    """Facts of one file beside its tables. Times in nanoseconds after the file's base."""

    begin_ns: int | None  # first timed event
    end_ns: int | None  # last timed event
    set_aside: dict[str, int]  # how many events of each kind of damage
    inverted_launches: int  # device events that begin before their launch
    has_marks: bool
    has_loader: bool
    has_checkpoint: bool
    has_gc: bool
    has_runtime: bool
    has_stacks: bool
    has_memory: bool
    has_device: bool
    has_profiler: bool  # rows of category `overhead`
    wrappers: tuple[str, ...]  # what wraps the model: see training_ranges
    peers: list[Peers]  # rank is filled in by the loader


@dataclass(frozen=True, slots=True)
class RankRecord:
    """One rank's file in small: `record[RowTimes]`. `names` holds the texts that `..._id` columns point at."""

    meta: TraceMeta
    facts: RecordFacts
    names: list[str]
    tables: Mapping[type[Table], Table]

    def __getitem__(self, table: type[T]) -> T:
        return self.tables[table]  # type: ignore[return-value]


RECORD_TABLES: tuple[type[Table], ...] = (RowTimes, Exposed, CollectiveRecords, KernelTotals, Exemplars)


def rank_record(trace: Trace, options: RecordOptions | None = None) -> RankRecord:
    """Attribute one file as far as it goes alone. Cost: O(n log n) in its events, about a tenth of reading it."""
    options = options or RecordOptions()
    hygiene = set_aside(trace)
    extent = timed_extent(trace, hygiene)
    found = marks(trace, hygiene)
    host = host_activity(trace, hygiene, found.tid, options.checkpoint)
    ranges = training_ranges(trace, hygiene, host)
    work = device_work(trace, hygiene, options.communication)
    interned = Interned()
    if extent is None:
        rows: list[RowTime] = []
        records = CollectiveRecords.empty()
    elif work:
        records = device_records(trace, hygiene, work, interned)
        rows = [device_time(w, device_windows(found, w, extent), host, hygiene.aside_ns(w.device)) for w in work]
    else:
        records = host_records(trace, hygiene, interned)
        rows = [host_time(trace, hygiene, host_windows(found, extent), host, Spans(records.start_ns, records.end_ns))]
    tables: dict[type[Table], Table] = {
        RowTimes: _row_times(trace, host, ranges, found, rows, work),
        Exposed: _exposed(rows),
        CollectiveRecords: records,
        KernelTotals: _kernel_totals(trace, work, interned),
        Exemplars: _exemplars(trace, host, rows, work, interned),
    }
    meta = replace(trace.meta, warnings=(*trace.meta.warnings, *not_understood(trace)))
    return RankRecord(meta, _facts(trace, hygiene, extent, found, host, ranges, work), interned.texts, tables)


def _row_times(
    trace: Trace,
    host: HostActivity,
    ranges: TrainingRanges,
    found: Marks,
    rows: list[RowTime],
    work: list[DeviceWork],
) -> RowTimes:
    if not rows:
        return RowTimes.empty()
    parts: dict[str, list[Ints]] = {name: [] for name in RowTimes.declared}
    for index, row in enumerate(rows):
        n = len(row.windows.labels)
        columns = {name: np.zeros(n, np.int64) for name in RowTimes.declared}
        columns |= {name: row.parts[name] for name in PARTS}
        columns |= signals.host_counts(trace, host, ranges, found, row)
        if work:
            columns |= signals.device_counts(trace, work[index], row)
            columns |= work_signals(trace, work[index], row, host, ranges, signals.host_bounds(found, row))
        labels = row.windows.labels
        columns["device"] = np.full(n, row.device or 0)
        columns["label"] = np.array([_label(x) for x in labels])
        columns["step"] = np.array([x if isinstance(x, int) else 0 for x in labels])
        columns["begin_ns"], columns["end_ns"] = row.windows.bounds[:-1], row.windows.bounds[1:]
        if trace.meta.truncated and STEP in columns["label"]:
            columns["cut_off"][np.flatnonzero(columns["label"] == STEP)[-1]] = 1
        for name, values in columns.items():
            parts[name].append(values)
    joined = {name: np.concatenate(values) for name, values in parts.items()}
    return RowTimes(joined, {"device": np.full(len(joined["step"]), bool(work)), "step": joined["label"] == STEP})


def _label(label: object) -> int:
    return {"before": BEFORE, "after": AFTER, None: WHOLE}.get(label, STEP)  # type: ignore[call-overload,no-any-return]


def _exposed(rows: list[RowTime]) -> Exposed:
    device, start, end, late = [], [], [], []
    for row in rows:
        for part, is_late in ((subtract(row.exposed, row.late), False), (intersect(row.exposed, row.late), True)):
            device.append(np.full(part.size, row.device or 0, np.int64))
            start.append(part.start)
            end.append(part.end)
            late.append(np.full(part.size, is_late))
    if not rows:
        return Exposed.empty()
    columns = {"device": device, "start_ns": start, "end_ns": end, "late": late}
    joined = {name: np.concatenate(values) for name, values in columns.items()}
    return Exposed(joined, {"device": np.full(len(joined["late"]), rows[0].device is not None)})


def _kernel_totals(trace: Trace, work: list[DeviceWork], interned: Interned) -> KernelTotals:
    if not work:
        return KernelTotals.empty()
    name = np.concatenate([w.name_id for w in work]).astype(np.int64)
    kind = np.concatenate([w.kind for w in work])
    dur = np.concatenate([w.end - w.start for w in work])
    distinct, inverse, count = np.unique(name * 8 + kind, return_inverse=True, return_counts=True)
    order = np.argsort(inverse, kind="stable")
    first = np.cumsum(count) - count
    return KernelTotals(
        {
            "name_id": np.array([interned[trace.names[int(i) // 8]] for i in distinct], np.int64),
            "kind": distinct % 8,
            "count": count,
            "total_ns": np.add.reduceat(dur[order], first),
            "min_ns": np.minimum.reduceat(dur[order], first),
            "max_ns": np.maximum.reduceat(dur[order], first),
        }
    )


def _exemplars(
    trace: Trace, host: HostActivity, rows: list[RowTime], work: list[DeviceWork], interned: Interned
) -> Exemplars:
    found = signals.exemplars(trace, host, rows, work)
    columns = list(zip(*found, strict=True)) if found else [(), (), (), ()]
    return Exemplars(
        {
            "trouble_id": np.array([interned[t] for t in columns[0]], np.int64),
            "name_id": np.array([interned[trace.names[i]] for i in columns[1]], np.int64),
            "start_ns": np.array(columns[2], np.int64),
            "dur_ns": np.array(columns[3], np.int64),
        }
    )


def _facts(
    trace: Trace,
    hygiene: Hygiene,
    extent: tuple[int, int] | None,
    found: Marks,
    host: HostActivity,
    ranges: TrainingRanges,
    work: list[DeviceWork],
) -> RecordFacts:
    return RecordFacts(
        begin_ns=extent[0] if extent else None,
        end_ns=extent[1] if extent else None,
        set_aside=dict(hygiene.counts),
        inverted_launches=sum(int((w.launched & (w.launch_ns > w.start)).sum()) for w in work),
        has_marks=found.tid is not None,
        has_loader=bool(len(host.loader.start)),
        has_checkpoint=bool(len(host.checkpoint.start)),
        has_gc=bool(len(host.gc.start)),
        has_runtime=RuntimeCalls in trace,
        has_stacks=PythonFunctions in trace,
        has_memory=MemoryEvents in trace,
        has_device=bool(work),
        has_profiler=ranges.has_profiler,
        wrappers=ranges.wrappers,
        peers=[
            Peers(
                rank=-1,
                device=w.device,
                tracelens=peers.tracelens(w, trace.names),
                hta=peers.hta(w, trace.names, found),
                tb_plugin=peers.tb_plugin(trace, hygiene, w, found),
            )
            for w in work
        ]
        or [Peers(rank=-1, device=None, tracelens=None, hta=None, tb_plugin=None)],
    )
