"""The run and its files: what was read, what was left out, what else lay beside it."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import takewhile

from rankscope.analyzers.findings import Diagnosis
from rankscope.analyzers.measured import FileReport, RunFacts
from rankscope.analyzers.quantities import count, duration, plural, spans
from rankscope.reports.blocks import Block, Cell, Column, Grid, Name, Quantity, Section, Text

ORDER = 80
_FILES = (
    Column("file", numeric=False),
    Column("rank"),
    Column("rank known from", numeric=False),
    Column("events"),
    Column("set aside", doc="events whose time is impossible: their time counts as unknown"),
    Column("skipped", doc="events that could not be decoded"),
    Column("whole", numeric=False),
)
_OTHERS = (
    Column("other run", numeric=False, doc="report it with --run"),
    Column("ranks", numeric=False),
    Column("started", numeric=False),
    Column("files"),
)


def build(diagnosis: Diagnosis) -> Section:
    """Always there."""
    run = diagnosis.run
    blocks: list[Block] = [Text(warning, "caution") for warning in diagnosis.warnings]
    blocks.append(Grid("Run", (Column("", False), Column("", False)), tuple(_facts(run))))
    if run.files:
        folder = _folder([file.path for file in run.files])
        order = sorted(run.files, key=lambda file: (not _touched(file), file.rank))
        blocks.append(Grid("Files", _FILES, tuple(_file(file, folder) for file in order), brief=8))
    if diagnosis.other_runs:
        rows: tuple[tuple[Cell, ...], ...] = tuple(
            (Name(other.id), spans(other.ranks), _when(other.started_unix_ns), Quantity(len(other.files), "count"))
            for other in diagnosis.other_runs
        )
        blocks.append(Grid("Other runs found here, not in this report", _OTHERS, rows, brief=5))
    return Section("run", "Run and files", tuple(blocks), detail=not diagnosis.warnings)


def _facts(run: RunFacts) -> list[tuple[Cell, Cell]]:
    aside = set(run.usable_steps)
    steps = f"{plural(run.steps, 'step')}, {len(aside)} of them judged" if run.steps else "no step marks"
    world = str(run.world_size) if run.world_size is not None else "not recorded"
    facts: list[tuple[Cell, Cell]] = [
        ("path", Name(run.path)),
        ("run", Name(run.id)),
        ("started", _when(run.started_unix_ns)),
        ("ranks", spans(run.ranks) or "none"),
        ("world size", world),
    ]
    if run.missing_ranks:
        facts.append(("missing ranks", spans(run.missing_ranks)))
    facts += [
        ("backend", Name(run.backend) if run.backend else "not recorded"),
        ("devices", Name(", ".join(run.devices)) if run.devices else "none recorded"),
        ("steps", steps),
        ("window", duration(run.wall_ns)),
        ("events", count(sum(file.events for file in run.files))),
    ]
    return facts


def _touched(file: FileReport) -> bool:
    return bool(file.set_aside or file.skipped_events or file.truncated)


def _folder(paths: list[str]) -> str:
    """The folder that all files share, with its slash; empty where there is none."""
    shared = takewhile(lambda names: len(set(names)) == 1, zip(*(path.split("/")[:-1] for path in paths), strict=False))
    return "".join(f"{names[0]}/" for names in shared)


def _file(file: FileReport, folder: str) -> tuple[Cell, ...]:
    return (
        Name(file.path.removeprefix(folder)),
        str(file.rank),
        file.rank_source,
        Quantity(file.events, "count"),
        Quantity(file.set_aside, "count"),
        Quantity(file.skipped_events, "count"),
        "cut off" if file.truncated else "yes",
    )


def _when(unix_ns: int | None) -> str:
    if unix_ns is None:
        return "not recorded"
    try:
        return datetime.fromtimestamp(unix_ns / 1e9, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, OSError, ValueError):
        return "not recorded"
