"""Rank by step: where in the run, and on which rank, a step was long, computed long or waited long."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from rankscope.analyzers.findings import Diagnosis
from rankscope.analyzers.measured import Row
from rankscope.analyzers.quantities import spans
from rankscope.reports.blocks import Heatmap, Section, Text
from rankscope.reports.rank_time import FEW, labels, rank_times, row_key, standing_out, usable_rows

ORDER = 30
_WORTH_SHARE = 0.01  # of the longest step: below, a map would show noise


def build(diagnosis: Diagnosis) -> Section | None:
    """None without numbered steps."""
    rows = [row for row in diagnosis.attribution if isinstance(row.step, int)]
    if not rows:
        return None
    frame = _frame(diagnosis, rows)
    maps = [
        replace(frame, title="Step", values=_values(rows, lambda row: row.window_ns)),
        replace(frame, title="Compute", values=_values(rows, lambda row: row.compute_ns)),
    ]
    judged = usable_rows(diagnosis) or rows
    worth = _WORTH_SHARE * max(row.window_ns for row in judged)
    if max(row.communication.wait_ns for row in judged) > worth:
        values = _values(rows, lambda row: row.communication.wait_ns)
        maps.append(replace(frame, title="Wait for other ranks", values=values, hue="wait", from_zero=True))
    if max(row.io_ns for row in judged) > worth:
        values = _values(rows, lambda row: row.io_ns)
        maps.append(replace(frame, title="Input and output", values=values, hue="data_loading", from_zero=True))
    notes = tuple(Text(text, "muted") for text in _notes(diagnosis, rows))
    lead = "One cell a rank and step: a row that stands out is a rank, a column that stands out is a step."
    return Section("steps", "Rank by step", (*maps, *notes), lead)


def _frame(diagnosis: Diagnosis, rows: list[Row]) -> Heatmap:
    """The map without its values."""
    keys = sorted({row_key(row) for row in rows})
    steps = _steps(rows)
    label = labels(diagnosis.attribution)
    usable = set(diagnosis.run.usable_steps)
    lead: tuple[int, ...] = ()
    if len(keys) > FEW:
        times = rank_times(diagnosis)
        wanted = {(times[i].rank, times[i].device) for i in standing_out(diagnosis, times)}
        lead = tuple(i for i, (rank, device) in enumerate(keys) if (rank, None if device == -1 else device) in wanted)
    return Heatmap(
        title="",
        row_axis="rank",
        column_axis="step",
        rows=tuple(label[key] for key in keys),
        columns=tuple(map(str, steps)),
        values=(),
        faint=frozenset(i for i, step in enumerate(steps) if usable and step not in usable),
        lead=lead,
    )


def _values(rows: list[Row], ns: Callable[[Row], int]) -> tuple[tuple[int | None, ...], ...]:
    cells = {(row_key(row), row.step): ns(row) for row in rows}
    steps = _steps(rows)
    return tuple(tuple(cells.get((key, step)) for step in steps) for key in sorted({key for key, _ in cells}))


def _steps(rows: list[Row]) -> list[int]:
    return sorted({row.step for row in rows if isinstance(row.step, int)})


def _notes(diagnosis: Diagnosis, rows: list[Row]) -> list[str]:
    usable = set(diagnosis.run.usable_steps)
    aside = set(_steps(rows)) - usable
    cut = {row.step for row in rows if row.partial and isinstance(row.step, int)}
    notes = []
    if not usable:
        notes.append("No step is complete after warm-up: no rule could judge one.")
    elif aside:
        notes.append(f"Faint steps are shown and not judged (warm-up, or partial on some rank): {spans(aside)}.")
    if cut:
        notes.append(f"Partial, that is, cut off by the capture: step {spans(cut)}.")
    return notes
