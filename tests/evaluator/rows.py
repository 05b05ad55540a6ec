"""Where the time of a file went, by elementary segments: between any two neighbouring times of anything nothing changes.

Written from docs/accounting.md, sections 2 and 3, alone.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from evaluator.events import Event, File

Label = int | str | None
PRIORITY = ("compute", "transfer", "unsplit", "wait", "device_copy", "host_to_device", "device_to_host")
BUCKET = {
    "compute": "kernel_ns",
    "transfer": "transfer_ns",
    "unsplit": "unsplit_ns",
    "wait": "wait_ns",
    "device_copy": "device_copy_ns",
    "host_to_device": "host_to_device_ns",
    "device_to_host": "device_to_host_ns",
}


@dataclass
class Row:
    """One row. `parts` hold the buckets, `overlays` what lies outside the sum."""

    device: int | None
    label: Label
    begin: int
    end: int
    parts: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    overlays: dict[str, int] = field(default_factory=lambda: defaultdict(int))


@dataclass(frozen=True)
class Record:
    """A collective on one rank. `wait` None: no peer's record."""

    start: int
    end: int
    wait: int | None
    key: Any = None


@dataclass(frozen=True)
class Gap:
    """Time in which the device had nothing to do, and what ended it."""

    begin: int
    end: int
    asked: int | None  # launch of the next event; None: not in the file
    thread: Any
    drained: bool


# ---- windows ---------------------------------------------------------------------------------------------------------


def windows(file: File, work: list[Event] | None) -> list[tuple[Label, int, int]]:
    """Label, begin and end of each window, neighbours; `work` None: by the host's marks alone."""
    first, last = file.extent
    if not file.marks:
        return [(None, first, last)]
    computing = [e for e in work or [] if e.kind == "compute"]
    bounds = [max([begin, *(e.end for e in computing if e.asked < begin)]) for _, begin, _ in file.marks]
    end = file.marks[-1][2]
    bounds.append(max([end, bounds[-1], *(e.end for e in computing if e.asked < end)]))
    labels: list[Label] = [number for number, _, _ in file.marks]
    if first < bounds[0]:
        labels, bounds = ["before", *labels], [first, *bounds]
    if last > bounds[-1]:
        labels, bounds = [*labels, "after"], [*bounds, last]
    return list(zip(labels, bounds, bounds[1:], strict=False))


def whole(rows: list[Row]) -> list[Row]:
    """The rows, and the row of the whole run: the sum of the steps."""
    steps = [row for row in rows if isinstance(row.label, int)]
    if not steps:
        return rows
    total = Row(steps[0].device, None, steps[0].begin, steps[-1].end)
    for row in steps:
        for name, value in row.parts.items():
            total.parts[name] += value
        for name, value in row.overlays.items():
            total.overlays[name] += value
    return [*rows, total]


# ---- segments --------------------------------------------------------------------------------------------------------


class Sweep:
    """Walks the elementary segments; `active[key]` says how many spans of a key cover the current one."""

    def __init__(self) -> None:
        self.changes: dict[int, list[tuple[Any, int]]] = defaultdict(list)
        self.active: dict[Any, int] = defaultdict(int)

    def add(self, key: Any, start: int, end: int) -> None:
        """A span of this key; empty ones only cut."""
        self.changes[start].append((key, 1 if end > start else 0))
        self.changes[end].append((key, -1 if end > start else 0))

    def cut(self, times: Iterable[int]) -> None:
        """Further times at which something may change."""
        for time in times:
            self.changes[time].append((None, 0))

    def segments(self) -> Iterator[tuple[int, int]]:
        """Begin and end of each segment, in order of time."""
        times = sorted(self.changes)
        for start, end in pairwise(times):
            for key, change in self.changes[start]:
                self.active[key] += change
            yield start, end


def within(sweep: Sweep, rows: list[Row]) -> Iterator[tuple[Row, int, int]]:
    """Each segment with its row; rows are neighbours, so none is cut by a bound."""
    place = 0
    for start, end in sweep.segments():
        while place < len(rows) and rows[place].end <= start:
            place += 1
        if place < len(rows) and start >= rows[0].begin:
            yield rows[place], start, end


def add_records(sweep: Sweep, records: Iterable[Record]) -> None:
    """Each collective's wait, then its transfer; or all of it unsplit."""
    for record in records:
        middle = record.start + (record.wait or 0)
        sweep.add("wait", record.start, middle)
        sweep.add("unsplit" if record.wait is None else "transfer", middle, record.end)


def add_host(sweep: Sweep, file: File) -> None:
    """What the thread with the marks does; and by thread what every thread does."""
    for name in ("loader", "checkpoint", "gc"):
        for e in file.host.get(name, ()):
            if e.tid == file.main:
                sweep.add(name, e.start, e.end)
    for name in ("allocator", "blocking"):
        for e in file.host.get(name, ()):
            sweep.add((name, e.tid), e.start, e.end)


def into_rows(file_windows: list[tuple[Label, int, int]], device: int | None) -> list[Row]:
    """Rows without parts."""
    return [Row(device, label, begin, end) for label, begin, end in file_windows]


# ---- device rows -----------------------------------------------------------------------------------------------------


def records_of(file: File, device: int) -> list[Record]:
    """The collectives of a device, without a peer."""
    return [Record(e.start, e.end, None, e) for e in file.device[device] if e.kind == "communication"]


def device_rows(file: File, device: int, records: list[Record]) -> list[Row]:
    """Every row of one device."""
    work = file.device[device]
    found = windows(file, work)
    rows = into_rows(found, device)
    sweep = Sweep()
    sweep.cut([found[0][1], *(end for _, _, end in found)])
    for e in work:
        sweep.add(e.kind, e.start, e.end)
        sweep.cut([e.launch[0]] if e.launch else [])
    add_records(sweep, records)
    add_host(sweep, file)
    gaps = gaps_of(file, device, found[0][1], found[-1][2])
    computing = next_kernels(work)
    gap = 0
    for row, start, end in within(sweep, rows):
        while gap < len(gaps) and gaps[gap].end <= start:
            gap += 1
        idle = gaps[gap] if gap < len(gaps) and gaps[gap].begin <= start else None
        judge(sweep.active, row, start, end, idle, computing)
    return whole(rows)


def judge(
    active: dict[Any, int],
    row: Row,
    start: int,
    end: int,
    gap: Gap | None,
    computing: tuple[list[int], list[tuple[int, Any] | None]],
) -> None:
    """One segment into its bucket and its overlays."""
    length = end - start
    kind = next((kind for kind in PRIORITY if active[kind]), None)
    if kind:
        bucket = BUCKET[kind]
    else:
        assert gap is not None, (start, end)
        bucket = idle_bucket(active, start, gap)
    row.parts[bucket] += length
    communicating = active["wait"] or active["transfer"] or active["unsplit"]
    if kind == "compute" and communicating:
        row.overlays["communication"] += length
    if kind in ("wait", "transfer", "unsplit") and host_is_late(active, start, end, computing):
        row.overlays["host_late"] += length
    moving = active["loader"] or active["host_to_device"] or active["device_to_host"]
    if moving and bucket not in ("data_loading_ns", "checkpoint_ns", "host_to_device_ns", "device_to_host_ns"):
        row.overlays["io"] += length


def idle_bucket(active: dict[Any, int], start: int, gap: Gap) -> str:
    """What an idle nanosecond is."""
    if gap.asked is None:
        return "unexplained_ns"
    if gap.asked <= gap.begin:
        return "kernel_gap_ns"
    if start >= gap.asked:
        return "launch_ns"
    named = (
        ("checkpoint", "checkpoint_ns"),
        ("loader", "data_loading_ns"),
        ("gc", "gc_ns"),
        (("allocator", gap.thread), "allocator_ns"),
    )
    return next((bucket for key, bucket in named if active[key]), "sync_ns" if gap.drained else "other_ns")


def gaps_of(file: File, device: int, begin: int, end: int) -> list[Gap]:
    """The device's idle gaps, over the bounds of rows."""
    starting: dict[int, list[Event]] = defaultdict(list)
    for e in file.device[device]:
        starting[e.start].append(e)
    gaps, reach = [], begin
    aside = sorted(file.aside.get(device, ()))
    for start in sorted(starting):
        if start > reach:
            asked = min((e.launch for e in starting[start] if e.launch), key=lambda at: at[0], default=None)
            broken = bisect_left(aside, start) > bisect_left(aside, reach)
            gaps.append(gap_until(file, reach, start, None if broken else asked))
        reach = max(reach, *(e.end for e in starting[start]))
    if end > reach:
        broken = bisect_left(aside, end) > bisect_left(aside, reach)
        gaps.append(gap_until(file, reach, end, None if broken else (end, file.main)))
    return gaps


def gap_until(file: File, begin: int, end: int, asked: tuple[int, Any] | None) -> Gap:
    """A gap and whether it began with a drain."""
    if asked is None:
        return Gap(begin, end, None, None, False)
    blocking = file.host.get("blocking", ())
    drained = any(e.tid == asked[1] and e.start < begin <= e.end for e in blocking)
    return Gap(begin, end, asked[0], asked[1], drained)


def next_kernels(work: list[Event]) -> tuple[list[int], list[tuple[int, Any] | None]]:
    """Starts of compute kernels, and the earliest launch of those that start there."""
    launch: dict[int, tuple[int, Any] | None] = {}
    for e in work:
        if e.kind == "compute":
            known = launch.get(e.start)
            launch[e.start] = min(filter(None, (known, e.launch)), key=lambda at: at[0], default=None)
    starts = sorted(launch)
    return starts, [launch[start] for start in starts]


def host_is_late(
    active: dict[Any, int], start: int, end: int, computing: tuple[list[int], list[tuple[int, Any] | None]]
) -> bool:
    """The next compute kernel had not been launched, and its thread was in no blocking call."""
    starts, launch = computing
    at = bisect_left(starts, end)
    if at == len(starts) or launch[at] is None:
        return False
    asked, thread = launch[at]  # type: ignore[misc]
    return start < asked and not active["blocking", thread]
