"""One rank's collectives as its own file shows them: arrival, end, group, sequence number, size.

Matching is `collectives.py`'s.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from rankscope.analyzers.intervals import Bools, Ints
from rankscope.analyzers.one_rank import host_kind, kernel_kind
from rankscope.analyzers.one_rank.hygiene import Hygiene
from rankscope.analyzers.one_rank.launches import DeviceWork
from rankscope.analyzers.trace.model import ProcessGroup, Trace
from rankscope.analyzers.trace.table import Column, Table
from rankscope.analyzers.trace.tables import CollectiveArgs, DeviceEvents, HostEvents

ELEMENT_BYTES: Final = {
    **dict.fromkeys(("Double", "Long", "ComplexFloat", "UInt64"), 8),
    **dict.fromkeys(("Float", "Int", "ComplexHalf", "UInt32"), 4),
    **dict.fromkeys(("Half", "BFloat16", "Short", "UInt16"), 2),
    **dict.fromkeys(("Byte", "Char", "Bool", "Float8_e4m3fn", "Float8_e5m2", "Float8_e4m3fnuz", "Float8_e5m2fnuz"), 1),
    "ComplexDouble": 16,
}
# (text in the lower-case name without underscores, our word); the first that fits counts.
_WORDS: Final = (
    ("reducescatter", "reduce_scatter"),
    ("allreduce", "all_reduce"),
    ("allgather", "all_gather"),
    ("alltoall", "all_to_all"),
    ("broadcast", "broadcast"),
    ("sendrecv", "send_receive"),
    ("barrier", "barrier"),
    ("scatter", "scatter"),
    ("gather", "gather"),
    ("reduce", "reduce"),
    ("send", "send"),
    ("recv", "receive"),
    ("receive", "receive"),
)
_MAX_RANKS: Final = 1 << 20


class CollectiveRecords(Table):
    """One row per collective of one rank, by start. Times in nanoseconds after the file's base."""

    start_ns = Column(np.int64, "arrival: the kernel's start, on a CPU rank the `c10d::` launch")
    end_ns = Column(np.int64, "end of the kernel, on a CPU rank of the backend's event")
    device = Column(np.int64, "device of the kernel", nullable=True)
    collective_id = Column(np.int32, "all_reduce, all_gather, ... or the name as written")
    group_id = Column(np.int32, "name of the group on this rank")
    members_id = Column(np.int32, "its global ranks, comma-separated, in group order; empty: unknown")
    size_id = Column(np.int32, "size class: shapes or kernel name, where bytes are unknown")
    group_size = Column(np.int64, "number of members", nullable=True)
    seq = Column(np.int64, "position in the group's order", nullable=True)
    root = Column(np.int64, "global rank of the root of a rooted collective", nullable=True)
    peer = Column(np.int64, "other end of a send or receive", nullable=True)
    bytes = Column(np.int64, "larger of input and output buffer of this rank", nullable=True)
    matchable = Column(np.bool_, "a copy between devices has no counterpart in another file")


@dataclass
class Interned:
    """Texts and their positions; position 0 is the empty text."""

    texts: list[str] = field(default_factory=lambda: [""])
    _at: dict[str, int] = field(default_factory=lambda: {"": 0})

    def __getitem__(self, text: str) -> int:
        if text not in self._at:
            self._at[text] = len(self.texts)
            self.texts.append(text)
        return self._at[text]


def collective_word(name: str) -> str:
    """Our word for a collective, from `Collective name`, a `c10d::` operator, a `gloo:` event or a kernel's name."""
    flat = name.lower().replace("_", "")
    return next((word for text, word in _WORDS if text in flat), name)


def members(text: str, group: str, groups: Sequence[ProcessGroup]) -> tuple[int, ...]:
    """Global ranks of a group from `Process Group Ranks`, else (missing, shortened with dots) from the file's group
    list.
    """
    if text and "..." not in text and re.fullmatch(r"\[[\d, ]*\]", text):
        found = tuple(int(r) for r in text.strip("[] ").split(",") if r.strip() and len(r) < 10)[:_MAX_RANKS]
        if found:
            return found
    listed = [g.ranks for g in groups if g.name == group and g.ranks] if group else []
    return tuple(listed[0]) if listed and listed[0] else ()


def device_records(trace: Trace, hygiene: Hygiene, work: Sequence[DeviceWork], interned: Interned) -> CollectiveRecords:
    """Communication kernels of every device with their arguments: the kernel's own, else those of `record_param_comms`."""
    rows = [w.row[w.kind == kernel_kind.COMMUNICATION] for w in work]
    devices = [np.full(len(r), w.device, np.int64) for r, w in zip(rows, work, strict=True)]
    row = np.concatenate(rows) if rows else np.empty(0, np.int64)
    if not len(row):
        return CollectiveRecords.empty()
    device = np.concatenate(devices)
    events, args = trace.get(DeviceEvents), trace.get(CollectiveArgs)
    order = np.argsort(events.start_ns[row], kind="stable")
    row, device = row[order], device[order]
    own = _position(args.row, args.on_device.astype(np.bool_), row)
    recorded = _recorded_args(trace, events, args, row)
    at = np.where(own >= 0, own, recorded)
    copies = host_kind.where(events.cat_id[row], trace.names, kernel_kind.COPY_CATEGORIES.__contains__)
    builder = _Builder(trace, interned)
    builder.times(events.start_ns[row], events.start_ns[row] + events.dur_ns[row], device)
    builder.arguments(args, at, recorded, events.name_id[row])
    return builder.table(matchable=~copies)


def host_records(trace: Trace, hygiene: Hygiene, interned: Interned) -> CollectiveRecords:
    """Collectives of a CPU rank: each `gloo:` (or `mpi:`) event with the `c10d::` launch it belongs to, paired by
    order.
    """
    events, names = trace.get(HostEvents), trace.names
    kept = hygiene.kept(HostEvents)
    ended = np.flatnonzero(host_kind.where(events.name_id, names, lambda n: n.startswith(("gloo:", "mpi:"))) & kept)
    asked = np.flatnonzero(host_kind.where(events.name_id, names, lambda n: n.startswith("c10d::")) & kept)
    ended = ended[np.argsort(events.start_ns[ended], kind="stable")]
    asked = asked[np.argsort(events.start_ns[asked], kind="stable")]
    if not len(ended):
        return CollectiveRecords.empty()
    launch = _pair(trace, events, asked, ended)
    named = np.where(launch >= 0, launch, ended)
    start = events.start_ns[named]
    end = events.start_ns[ended] + events.dur_ns[ended]
    order = np.argsort(start, kind="stable")
    builder = _Builder(trace, interned)
    builder.times(start[order], np.maximum(end, start)[order], None)
    builder.shapes(events.name_id[named][order], events.shapes_id[named][order])
    return builder.table(matchable=np.ones(len(order), np.bool_))


def _position(keys: Ints, usable: Bools, wanted: Ints) -> Ints:
    """Position in `keys` (where usable) of each wanted value, -1 where there is none; of several the first."""
    candidates = np.flatnonzero(usable)
    if not len(candidates):
        return np.full(len(wanted), -1, np.int64)
    order = candidates[np.argsort(keys[candidates], kind="stable")]
    at = np.minimum(np.searchsorted(keys[order], wanted, "left"), len(order) - 1)
    return np.where(keys[order][at] == wanted, order[at], -1)


def _recorded_args(trace: Trace, events: DeviceEvents, args: CollectiveArgs, row: Ints) -> Ints:
    """Rows of CollectiveArgs of the `record_param_comms` with each event's `External id`, -1 where there is none."""
    host = trace.get(HostEvents)
    on_host = np.flatnonzero(~args.on_device.astype(np.bool_))
    if not len(on_host):
        return np.full(len(row), -1, np.int64)
    of = args.row[on_host]
    found = _position(host.external_id[of], host.valid("external_id")[of], events.external_id[row])
    return np.where((found >= 0) & events.valid("external_id")[row], on_host[np.maximum(found, 0)], -1)


def _pair(trace: Trace, events: HostEvents, asked: Ints, ended: Ints) -> Ints:
    """For each backend event the earliest launch not taken, of its kind, that lies before it; -1: none."""
    words = {
        int(i): collective_word(trace.names[int(i)]) for i in np.unique(events.name_id[np.concatenate((asked, ended))])
    }
    waiting: dict[str, list[int]] = {}
    for row in asked[::-1]:
        word = words[int(events.name_id[row])]
        # gloo runs a reduce-scatter as an all-reduce and names its event so.
        waiting.setdefault("all_reduce" if word == "reduce_scatter" else word, []).append(int(row))
    result = np.full(len(ended), -1, np.int64)
    for position, row in enumerate(ended):
        word = words[int(events.name_id[row])]
        queue = waiting.get("all_reduce" if word == "reduce_scatter" else word, [])
        if queue and events.start_ns[queue[-1]] <= events.start_ns[row]:
            result[position] = queue.pop()
    return result


class _Builder:
    """Gathers the columns of CollectiveRecords, deciding each distinct text once."""

    def __init__(self, trace: Trace, interned: Interned) -> None:
        self.trace = trace
        self.interned = interned
        self.columns: dict[str, np.ndarray[tuple[int], np.dtype[np.int64]]] = {}
        self.valid: dict[str, Bools] = {}

    def times(self, start: Ints, end: Ints, device: Ints | None) -> None:
        self.columns |= {"start_ns": start, "end_ns": end}
        n = len(start)
        self._nullable("device", np.zeros(n, np.int64) if device is None else device, np.full(n, device is not None))
        for name in ("group_size", "seq", "root", "peer", "bytes"):
            self._nullable(name, np.zeros(n, np.int64), np.zeros(n, np.bool_))
        for name in ("collective_id", "group_id", "members_id", "size_id"):
            self.columns[name] = np.zeros(n, np.int64)

    def arguments(self, args: CollectiveArgs, at: Ints, recorded: Ints, kernel_name: Ints) -> None:
        """Fill in from rows `at` of CollectiveArgs (-1: none, then the kernel's name is all there is)."""
        names, known = self.trace.names, at >= 0
        if not len(args):
            args, at, recorded = _no_args(), np.zeros_like(at), np.full_like(recorded, -1)
        at = np.maximum(at, 0)
        written = np.where(known, args.collective_id[at], 0)
        self.columns["collective_id"] = np.where(
            written > 0,
            self._map(written, lambda i: collective_word(names[i])),
            self._map(kernel_name, lambda i: collective_word(names[i])),
        )
        self.columns["size_id"] = self._map(kernel_name, lambda i: names[i])
        self.columns["group_id"] = self._map(np.where(known, args.group_id[at], 0), lambda i: names[i])
        self._members(np.where(known, args.group_ranks_id[at], 0), np.where(known, args.group_id[at], 0))
        for name in ("group_size", "seq"):
            self._nullable(name, args.columns[name][at].astype(np.int64), known & args.valid(name)[at])
        self._bytes(args, at, known)
        self._ends(args, at, known, np.maximum(recorded, 0), recorded >= 0)

    def shapes(self, name_id: Ints, shapes_id: Ints) -> None:
        """Fill in for a CPU rank: the operator's name and shapes, and the group where the file lists only one."""
        names = self.trace.names
        self.columns["collective_id"] = self._map(name_id, lambda i: collective_word(names[i]))
        self.columns["size_id"] = self._map(shapes_id, lambda i: names[i])
        groups = [g for g in self.trace.meta.groups if g.ranks]
        if len(groups) == 1 and groups[0].ranks:
            n = len(name_id)
            self.columns["group_id"] = np.full(n, self.interned[groups[0].name])
            self.columns["members_id"] = np.full(n, self.interned[",".join(map(str, groups[0].ranks))])
            self._nullable("group_size", np.full(n, len(groups[0].ranks)), np.ones(n, np.bool_))

    def table(self, matchable: Bools) -> CollectiveRecords:
        """The finished table."""
        return CollectiveRecords({**self.columns, "matchable": matchable}, self.valid)

    def _nullable(self, name: str, values: Ints, valid: Bools) -> None:
        self.columns[name] = np.where(valid, values, 0)
        self.valid[name] = valid

    def _map(self, ids: Ints, text: Callable[[int], str]) -> Ints:
        distinct, inverse = np.unique(ids, return_inverse=True)
        return np.array([self.interned[text(int(i))] for i in distinct], np.int64)[inverse]

    def _members(self, text_id: Ints, group_id: Ints) -> None:
        names, groups = self.trace.names, self.trace.meta.groups
        pair = text_id.astype(np.int64) * len(names) + group_id
        distinct, inverse = np.unique(pair, return_inverse=True)
        found = [
            ",".join(map(str, members(names[int(p) // len(names)], names[int(p) % len(names)], groups)))
            for p in distinct
        ]
        self.columns["members_id"] = np.array([self.interned[text] for text in found], np.int64)[inverse]

    def _bytes(self, args: CollectiveArgs, at: Ints, known: Bools) -> None:
        names = self.trace.names
        distinct, inverse = np.unique(args.dtype_id, return_inverse=True)
        width = np.array([ELEMENT_BYTES.get(names[int(i)], 0) for i in distinct], np.int64)[inverse][at]
        elements = np.maximum(
            np.where(args.valid("in_elements")[at], args.in_elements[at], 0),
            np.where(args.valid("out_elements")[at], args.out_elements[at], 0),
        )
        sane = (elements > 0) & (elements < 1 << 50) & (width > 0)
        self._nullable("bytes", np.where(sane, elements, 0) * width, known & sane)

    def _ends(self, args: CollectiveArgs, at: Ints, known: Bools, host: Ints, on_host: Bools) -> None:
        """Roots (of the host's record: a kernel has none) and the other end of sends and receives."""
        words = self.interned.texts
        rooted = np.isin(
            self.columns["collective_id"], [self.interned[w] for w in ("broadcast", "scatter", "reduce", "gather")]
        )
        index = np.where(on_host, args.root[host], 0)
        has = rooted & on_host & args.valid("root")[host]
        root = np.zeros(len(at), np.int64)
        for row in np.flatnonzero(has):
            listed = words[int(self.columns["members_id"][row])].split(",")
            inside = 0 <= index[row] < len(listed) and listed[0] != ""
            root[row] = int(listed[int(index[row])]) if inside else 0
            has[row] = inside
        self._nullable("root", root, has)
        source = known & args.valid("src")[at]
        target = known & args.valid("dst")[at]
        sends = self.columns["collective_id"] == self.interned["send"]
        self._nullable("peer", np.where(sends, args.dst[at], args.src[at]), np.where(sends, target, source))


def _no_args() -> CollectiveArgs:
    """One row that says nothing."""
    return CollectiveArgs(
        {name: np.zeros(1, column.dtype) for name, column in CollectiveArgs.declared.items()},
        {name: np.zeros(1, np.bool_) for name, column in CollectiveArgs.declared.items() if column.nullable},
    )
