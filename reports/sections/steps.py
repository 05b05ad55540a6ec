"""Rank by step: where in the run, and on which rank, a step was long, computed long or waited long."""

from __future__ import annotations

from collections.abc import Callable

from rankscope.analyzers.findings import Diagnosis, Row
from rankscope.analyzers.quantities import spans
from rankscope.reports.blocks import Heatmap, Section, Text
from rankscope.reports.rank_time import FEW, labels, rank_times, standing_out

ORDER = 30


def build(diagnosis: Diagnosis) -> Section | None:
    """None without numbered steps."""
    rows = [row for row in diagnosis.attribution if isinstance(row.step, int)]
    if not rows:
        return None
    maps = [
        _map(diagnosis, rows, "Step", "kernel", lambda row: row.window_ns),
        _map(diagnosis, rows, "Compute", "kernel", lambda row: row.compute_ns),
    ]
    if any(row.communication.wait_ns for row in rows):
        maps.append(_map(diagnosis, rows, "Wait for other ranks", "wait", lambda row: row.communication.wait_ns, True))
    if any(row.io_ns for row in rows):
        maps.append(_map(diagnosis, rows, "Input and output", "data_loading", lambda row: row.io_ns, True))
    notes = tuple(Text(text, "muted") for text in _notes(diagnosis, rows))
    lead = "One cell a rank and step: a row that stands out is a rank, a column that stands out is a step."
    return Section("steps", "Rank by step", (*maps, *notes), lead)


def _map(
    diagnosis: Diagnosis, rows: list[Row], title: str, hue: str, ns: Callable[[Row], int], from_zero: bool = False
) -> Heatmap:
    steps = sorted({row.step for row in rows if isinstance(row.step, int)})
    label = labels(diagnosis.attribution)
    keys = sorted({(row.rank, -1 if row.device is None else row.device) for row in rows})
    cells = {(row.rank, -1 if row.device is None else row.device, row.step): row for row in rows}
    usable = set(diagnosis.run.usable_steps)
    values = tuple(tuple(ns(cells[(*key, step)]) if (*key, step) in cells else None for step in steps) for key in keys)
    lead = tuple(sorted(_leading(diagnosis, keys))) if len(keys) > FEW else ()
    faint = frozenset(i for i, step in enumerate(steps) if usable and step not in usable)
    names = tuple(label[key] for key in keys)
    return Heatmap(title, "rank", "step", names, tuple(map(str, steps)), values, "ns", hue, from_zero, faint, lead)


def _leading(diagnosis: Diagnosis, keys: list[tuple[int, int]]) -> list[int]:
    times = rank_times(diagnosis)
    wanted = {(times[i].rank, times[i].device) for i in standing_out(diagnosis, times)}
    return [i for i, (rank, device) in enumerate(keys) if (rank, None if device == -1 else device) in wanted]


def _notes(diagnosis: Diagnosis, rows: list[Row]) -> list[str]:
    notes = []
    steps = {row.step for row in rows if isinstance(row.step, int)}
    aside = steps - set(diagnosis.run.usable_steps)
    if aside:
        notes.append(f"Faint steps are shown and not judged (warm-up, or cut off by the capture): {spans(aside)}.")
    cut = {row.step for row in rows if row.partial and isinstance(row.step, int)}
    if cut:
        notes.append(f"Partial: step {spans(cut)}.")
    return notes
