"""From rank files or traces made in memory to a run, its analysis and its report."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

from rankscope.analyzers.analysis import Analysis
from rankscope.analyzers.diagnose import analyse, diagnose
from rankscope.analyzers.findings import Diagnosis
from rankscope.analyzers.one_rank.rank_record import RankRecord, rank_record
from rankscope.analyzers.rules import load_rules
from rankscope.analyzers.run import DISTRIBUTED_INFO, ORDER, LoadedRank, Run
from rankscope.analyzers.trace.readers import read
from rankscope.reports.renderers import json as json_renderer


def run_of_records(records: Sequence[RankRecord]) -> Run:
    """A run of these ranks; a record that does not state its rank has its position."""
    ranks = []
    for position, record in enumerate(records):
        stated = record.meta.rank
        source = ORDER if stated is None else DISTRIBUTED_INFO
        ranks.append(LoadedRank(position if stated is None else stated, source, record.meta.path, record))
    ranks.sort(key=lambda loaded: loaded.rank)
    world = ranks[0].record.meta.world_size
    missing = tuple(sorted(set(range(world or 0)) - {loaded.rank for loaded in ranks}))
    return Run("run", "run", None, world, tuple(ranks), missing, (), (), ())


def run_of(files: Iterable[Path]) -> Run:
    """A run of these rank files."""
    return run_of_records([rank_record(read(path)) for path in sorted(files)])


def written(folder: Path, texts: Iterable[str]) -> list[Path]:
    """Each text in a file of its own."""
    paths = []
    for number, text in enumerate(texts):
        paths.append(folder / f"rank-{number}.json")
        paths[-1].write_text(text)
    return paths


def analysed(files: Iterable[Path], steps: Collection[int] | None = None) -> Analysis:
    """The analysis of the run of these files."""
    return analyse(run_of(files), steps)


def diagnosed(files: Iterable[Path], steps: Collection[int] | None = None) -> Diagnosis:
    """What every rule says of the run of these files."""
    return diagnose(analysed(files, steps), load_rules())


def report(files: Iterable[Path]) -> dict[str, Any]:
    """The report of the run of these files, as JSON."""
    return dict(json.loads(json_renderer.render(diagnosed(files))))
