"""Reads `pulse.jsonl`: one line a step, into columns. Cost: about 7 us a line."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Annotated, Any

import msgspec
import numpy as np

from rankscope.analyzers.pulse.readers.lines import Lines
from rankscope.analyzers.pulse.tables import STAGES, Logged, PulseSteps, stage_names
from rankscope.analyzers.trace.table import Array, Bools

MOST_STEPS = 2_000_000  # rows kept of one process
MOST_NAMES = 64  # logged names of one process
MOST_NAME = 100  # characters of one
Ns = Annotated[int, msgspec.Meta(ge=0, le=1 << 56)]  # two years; sums over stages and ranks stay below 63 bits
Unix = Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)]
Step = Annotated[int, msgspec.Meta(ge=0, lt=1 << 53)]

_Stages = msgspec.defstruct("_Stages", [(stage, Ns | None, None) for stage in STAGES], gc=False)


class _Memory(msgspec.Struct, gc=False):
    host_bytes: Ns | None = None
    device_bytes: Ns | None = None
    device_peak_bytes: Ns | None = None


class _Line(msgspec.Struct):
    step: Step
    begin_ns: Unix | None = None
    wall_ns: Ns | None = None
    stages: _Stages | None = None  # type: ignore[valid-type]
    wait: _Stages | None = None  # type: ignore[valid-type]
    queued: _Stages | None = None  # type: ignore[valid-type]
    device: _Stages | None = None  # type: ignore[valid-type]
    gc_ns: Ns | None = None
    memory: _Memory | None = None
    log: dict[str, Any] | None = None
    hooks_ns: Ns | None = None


_DECODER = msgspec.json.Decoder(_Line)
_REFUSED = (msgspec.MsgspecError, ValueError, RecursionError)


@dataclass(slots=True)
class PulseFile:
    """A pulse as read: its steps, what was logged, and what reading it met. `lines` counts the records in the file."""

    steps: PulseSteps
    logged: Logged
    lines: int
    problems: list[str] = field(default_factory=list)


def read_pulse(path: str, every: int = 1) -> PulseFile:
    """The pulse at `path`; only steps whose number `every` divides are kept, but all values that are not finite."""
    lines = Lines(path)
    blocks: list[PulseSteps] = []
    logged = _Log(every)
    count = kept = 0
    for piece in lines.pieces():
        piece, passed = _thinned(piece, every) if every > 1 else (piece, 0)
        found = _records(lines, piece)
        count += len(found) + passed
        logged.take(found)
        if every > 1:
            found = [line for line in found if line.step % every == 0]
        if found and kept < MOST_STEPS:
            blocks.append(_columns(found[: MOST_STEPS - kept]))
            kept += len(found)
    problems = lines.problems
    if kept > MOST_STEPS:
        problems.append(f"only its first {MOST_STEPS:,} steps were read")
    steps, again = _each_step_once(_joined(blocks))
    if again:
        problems.append(f"{again:,} steps were counted twice; the later record stands")
    return PulseFile(steps, logged.table(), count, problems)


def _thinned(piece: bytes, every: int) -> tuple[bytes, int]:
    """The lines without those whose number says that they are not kept, and how many those are: ten times as fast as
    decoding them. A line of another shape, or with a value that is no number, stays.
    """
    kept, passed = [], 0
    for text in piece.split(b"\n"):
        number = text[8 : text.find(b",")] if text.startswith(b'{"step":') else b""
        if number.isdigit() and len(number) < 16 and int(number) % every and b"NaN" not in text and b"Inf" not in text:
            passed += 1
        else:
            kept.append(text)
    return b"\n".join(kept), passed


def _records(lines: Lines, piece: bytes) -> list[_Line]:
    """All lines at once where they are sound, else one by one."""
    if max(map(len, piece.split(b"\n")), default=0) <= 1 << 12:  # longer ones are looked at one by one
        try:
            return _DECODER.decode_lines(piece)
        except _REFUSED:
            pass
    found = []
    for text in lines.each(piece):
        try:
            found.append(_record(text))
        except _REFUSED:
            lines.damaged += 1
    return found


def _record(text: bytes) -> _Line:
    """One line; Python's JSON knows NaN and Infinity, which are what a diverging run logs."""
    try:
        return _DECODER.decode(text)
    except msgspec.DecodeError:
        if b"NaN" not in text and b"Infinity" not in text:
            raise
        return msgspec.convert(json.loads(text), _Line)


def _columns(found: Sequence[_Line]) -> PulseSteps:
    columns: dict[str, Array] = {}
    valid: dict[str, Bools] = {}

    def add(name: str, values: Sequence[int | None]) -> None:
        column = PulseSteps.declared[name]
        columns[name] = np.array([value or 0 for value in values], column.dtype)
        valid[name] = np.array([value is not None for value in values], np.bool_)

    add("step", [line.step for line in found])
    for name in ("begin_ns", "gc_ns", "hooks_ns"):
        add(name, list(map(attrgetter(name), found)))
    for part in ("stages", "wait", "queued", "device"):
        told = list(map(attrgetter(part), found))
        names = stage_names("" if part == "stages" else part)
        if not any(told):
            absent = np.zeros(len(found), np.bool_)
            columns |= {name: np.zeros(len(found), np.int64) for name in names}
            valid |= dict.fromkeys(names, absent)
            continue
        for stage, name in zip(STAGES, names, strict=True):
            add(name, [None if of is None else getattr(of, stage) for of in told])
            if part != "device":  # what a line leaves out took no time
                valid[name] = np.array([of is not None for of in told], np.bool_)
            if part == "wait":  # but a stage with time waited for an unknown part of it
                valid[name] &= np.array([of is not None and getattr(of, stage) is not None for of in told], np.bool_) | (
                    columns[f"{stage}_ns"] == 0
                )
    memory = [line.memory for line in found]
    for name in ("host_bytes", "device_bytes", "device_peak_bytes"):
        add(name, [None if of is None else getattr(of, name) for of in memory])
    total = np.sum([columns[name] for name in stage_names()], axis=0, dtype=np.int64)
    add("wall_ns", [line.wall_ns for line in found])
    columns["wall_ns"] = np.where(valid["wall_ns"], columns["wall_ns"], total)
    return PulseSteps(columns, {name: mask for name, mask in valid.items() if PulseSteps.declared[name].nullable})


def _joined(blocks: Sequence[PulseSteps]) -> PulseSteps:
    if not blocks:
        return PulseSteps.empty()
    declared = PulseSteps.declared
    return PulseSteps(
        {name: np.concatenate([block.columns[name] for block in blocks]) for name in declared},
        {name: np.concatenate([b.valid(name) for b in blocks]) for name, column in declared.items() if column.nullable},
    )


def _each_step_once(steps: PulseSteps) -> tuple[PulseSteps, int]:
    """Ascending; of a step that was counted again the last. And how many were left out."""
    if (np.diff(steps.step) > 0).all():
        return steps, 0
    order = np.argsort(steps.step, kind="stable")
    ordered = steps.step[order]
    last = np.append(ordered[1:] != ordered[:-1], [True])
    return steps.take(order[last]), int((~last).sum())


@dataclass(slots=True)
class _Log:
    """Collects logged values: of every `every`-th step, and whatever is not finite."""

    every: int
    rows: list[tuple[int, str, float]] = field(default_factory=list)
    names: set[str] = field(default_factory=set)

    def take(self, found: Sequence[_Line]) -> None:
        for line in found:
            if line.log:
                self.rows += self._values(line.step, line.log)

    def _values(self, step: int, log: dict[str, Any]) -> Iterator[tuple[int, str, float]]:
        for name, value in log.items():
            number = _number(value)
            if number is None or (self.every > 1 and step % self.every and math.isfinite(number)):
                continue
            name = name[:MOST_NAME]
            if name in self.names or len(self.names) < MOST_NAMES:
                self.names.add(name)
                yield step, name, number

    def table(self) -> Logged:
        names = np.empty(len(self.rows), object)
        names[:] = [name for _, name, _ in self.rows]
        return Logged(
            {
                "step": np.array([step for step, _, _ in self.rows], np.int64),
                "name": names,
                "value": np.array([value for _, _, value in self.rows], np.float64),
            }
        )


def _number(value: Any) -> float | None:  # noqa: ANN401 (any JSON value)
    """Booleans are numbers here; `nan` and `inf` may be written as words."""
    try:
        return float(value) if isinstance(value, int | float | str) and len(str(value)) < MOST_NAME else None
    except (ValueError, OverflowError):
        return None
