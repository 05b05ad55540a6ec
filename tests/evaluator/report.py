"""A whole run by the evaluator, and where the report differs from it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from evaluator.collectives import Charges, Meeting, charge, covered_on, exposed, flights, host_meetings, meetings, split
from evaluator.events import Event, File, read
from evaluator.host_rows import host_rows
from evaluator.rows import Record, Row, device_rows

from rankscope.analyzers import findings

PARTS = {
    "compute": ("kernel_ns", "device_copy_ns"),
    "communication": ("wait_ns", "transfer_ns", "unsplit_ns"),
    "io": ("data_loading_ns", "checkpoint_ns", "host_to_device_ns", "device_to_host_ns"),
    "host": ("launch_ns", "sync_ns", "allocator_ns", "gc_ns", "other_ns"),
    "idle": ("kernel_gap_ns", "unexplained_ns"),
}


def evaluated(paths: Sequence[Path], *, matched: bool) -> tuple[dict[int, list[Row]], Charges]:
    """Every row by rank, and who is charged. `matched`: look for the other ranks' records, by Seq or by order."""
    files = {position if (file := read(path)).rank is None else file.rank or 0: file
             for position, path in enumerate(paths)}  # fmt: skip
    found: list[Meeting] = []
    if matched:
        found = meetings(files.values()) if any(f.device for f in files.values()) else host_meetings(files.values())
        known = {id(e): e for meeting in found for e in meeting.events.values()}
    rows, pieces = {}, {}
    for rank, file in files.items():
        events = communicating(file)
        if matched and not file.device:
            events = {None: [m.events[rank] for m in found if rank in m.events]}
            assert all(id(e) in known for e in events[None])
        records = {device: split(found, of_device) for device, of_device in events.items()}
        rows[rank] = rows_of(file, records)
        pieces[rank] = exposed([r for device in records.values() for r in device], covered_on(file)) if matched else {}
    return rows, charge(found, pieces)


def communicating(file: File) -> dict[int | None, list[Event]]:
    """Communication of each device, or of the host."""
    if not file.device:
        return {None: flights(file)}
    return {device: [e for e in work if e.kind == "communication"] for device, work in file.device.items()}


def rows_of(file: File, records: dict[int | None, list[Record]]) -> list[Row]:
    """Every row of a file."""
    if not file.device:
        return host_rows(file, records[None]) if file.timed else []
    return [row for device in file.device for row in device_rows(file, device, records[device])]


def row_differences(rank: int, mine: Sequence[Row], theirs: Sequence[findings.Row]) -> Iterator[str]:
    """A sentence for each figure that differs by so much as a nanosecond."""
    expected = {(row.device, row.label): row for row in mine}
    found = {(row.device, row.step): row for row in theirs if row.rank == rank}
    if set(expected) != set(found):
        yield f"rank {rank}: rows {sorted(map(str, found))}, evaluated {sorted(map(str, expected))}"
    for key in expected.keys() & found.keys():
        row, other = expected[key], figures(found[key])
        overlays = {f"{name} overlay": value for name, value in row.overlays.items()}
        evaluated_ = {**row.parts, **overlays, "window_ns": row.end - row.begin}
        for name in evaluated_.keys() | other.keys():
            if evaluated_.get(name, 0) != other.get(name, 0):
                yield f"rank {rank} {key}: {name} is {other.get(name, 0)}, evaluated {evaluated_.get(name, 0)}"


def figures(row: findings.Row) -> dict[str, int]:
    """The figures of a row of the report, flat."""
    flat: dict[str, Any] = {name: getattr(getattr(row, parent), name) for parent in PARTS for name in PARTS[parent]}
    flat["window_ns"] = row.window_ns
    flat["communication overlay"], flat["io overlay"] = row.communication.overlapped_ns, row.io.overlapped_ns
    flat["host_late overlay"] = row.communication.host_late_ns
    return flat


def broken_sums(rows: Sequence[findings.Row]) -> Iterator[str]:
    """Rows whose parts are negative or do not add up."""
    for row in rows:
        parents = {name: getattr(row, f"{name}_ns") for name in PARTS}
        if sum(parents.values()) != row.window_ns:
            yield f"{row.rank}, {row.step}: {parents} in {row.window_ns}"
        for name, parts in PARTS.items():
            values = [getattr(getattr(row, name), part) for part in parts]
            if min(values) < 0 or sum(values) != parents[name]:
                yield f"{row.rank}, {row.step}: {name} {values}"
