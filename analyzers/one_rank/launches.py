"""Device events with their launches: which runtime call asked for each, when, and on which thread."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rankscope.analyzers.intervals import FIRST, LAST, Bools, Ints
from rankscope.analyzers.one_rank import kernel_kind
from rankscope.analyzers.one_rank.hygiene import Hygiene
from rankscope.analyzers.quantities import duration, plural
from rankscope.analyzers.trace.model import Trace
from rankscope.analyzers.trace.tables import CollectiveArgs, DeviceEvents, RuntimeCalls


@dataclass(frozen=True, slots=True)
class DeviceWork:
    """Kept device events of one device, by start, then by launch. Times in nanoseconds after the file's base.

    `launch_ns` and `launch_tid` mean something only where `launched`; `early` events were launched before the capture:
    no launch in the file, and no launched event before them on their stream.
    """

    device: int
    row: Ints  # position in DeviceEvents
    start: Ints
    end: Ints
    stream: Ints
    kind: Ints
    name_id: Ints
    launched: Bools
    launch_ns: Ints
    launch_tid: Ints
    early: Bools

    def __len__(self) -> int:
        return len(self.start)

    @property
    def asked_ns(self) -> Ints:
        """When the host asked for the event: its launch, FIRST when early, its own start (by the clock) without a
        launch.
        """
        return np.where(self.launched, self.launch_ns, np.where(self.early, FIRST, self.start))


class Launches(NamedTuple):
    """Per device event: whether its launch is in the file, the call's begin, its thread and its row in RuntimeCalls."""

    launched: Bools
    at_ns: Ints
    tid: Ints
    row: Ints


def launches(trace: Trace, hygiene: Hygiene) -> Launches:
    """Join device events with runtime calls through `correlation`, one call to many events; of several calls the
    earliest counts.
    """
    events, calls = trace.get(DeviceEvents), trace.get(RuntimeCalls)
    n = len(events)
    usable = np.flatnonzero(calls.valid("correlation") & (calls.correlation > 0) & hygiene.kept(RuntimeCalls))
    if not len(usable) or not n:
        none = np.zeros(n, np.int64)
        return Launches(none.astype(np.bool_), none, none, none)
    ids, begins = calls.correlation[usable], calls.start_ns[usable]
    order = np.lexsort((begins, ids))
    ids, usable = ids[order], usable[order]
    at = np.minimum(np.searchsorted(ids, events.correlation, "left"), len(ids) - 1)
    launched = (ids[at] == events.correlation) & events.valid("correlation") & (events.correlation > 0)
    row = usable[at]
    return Launches(launched, calls.start_ns[row], calls.tid[row], row)


def device_kinds(trace: Trace, communication: tuple[str, ...] = ()) -> Ints:
    """Kind of every device event: by collective arguments, copies between two devices, category and name."""
    events = trace.get(DeviceEvents)
    kind = kernel_kind.kinds(events.name_id, events.cat_id, trace.names, communication).astype(np.int64)
    args = trace.get(CollectiveArgs)
    kind[args.row[args.on_device.astype(np.bool_)]] = kernel_kind.COMMUNICATION
    between = events.valid("from_device") & events.valid("to_device") & (events.from_device != events.to_device)
    kind[between] = kernel_kind.COMMUNICATION
    return kind


def not_understood(trace: Trace) -> list[str]:
    """Device events of which nobody knows whether they are work, in a sentence a name."""
    events = trace.get(DeviceEvents)
    pairs, of, counts = np.unique(
        np.stack((events.cat_id, events.name_id)), axis=1, return_inverse=True, return_counts=True
    )
    took = np.bincount(of.ravel(), events.dur_ns, len(counts))
    said = []
    for category, name, n, ns in zip(*pairs.tolist(), counts.tolist(), took.tolist(), strict=True):
        if not kernel_kind.is_understood(trace.names[name], trace.names[category]):
            what = f"`{trace.names[name]}` of category {trace.names[category]} ({duration(ns)})"
            said.append(
                f"{plural(n, 'device event')} {what} not understood: whether it is work is unknown, it counts as none"
            )
    return said


def device_work(trace: Trace, hygiene: Hygiene, communication: tuple[str, ...] = ()) -> list[DeviceWork]:
    """The work of each device of the process, in device order; what was set aside and what is no work is left out."""
    events = trace.get(DeviceEvents)
    if not len(events):
        return []
    kind = device_kinds(trace, communication)
    joined = launches(trace, hygiene)
    kept = hygiene.kept(DeviceEvents) & (kind != kernel_kind.NOTHING)
    result = []
    for device in np.unique(events.device[kept]):
        rows = np.flatnonzero(kept & (events.device == device))
        order = np.lexsort((np.where(joined.launched[rows], joined.at_ns[rows], LAST), events.start_ns[rows]))
        rows = rows[order]
        start, stream, launched = events.start_ns[rows], events.stream[rows], joined.launched[rows]
        result.append(
            DeviceWork(
                device=int(device),
                row=rows,
                start=start,
                end=start + events.dur_ns[rows],
                stream=stream,
                kind=kind[rows],
                name_id=events.name_id[rows],
                launched=launched,
                launch_ns=joined.at_ns[rows],
                launch_tid=joined.tid[rows],
                early=_early(start, stream, launched) & trace.meta.knows_launches,
            )
        )
    return result


def _early(start: Ints, stream: Ints, launched: Bools) -> Bools:
    """Not launched in the file, and nothing launched before them on their stream."""
    streams, of = np.unique(stream, return_inverse=True)
    first = np.full(len(streams), LAST, np.int64)
    np.minimum.at(first, of[launched], start[launched])
    return ~launched & (start < first[of])
