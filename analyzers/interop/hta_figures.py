"""What HTA itself says of the same files: run in a process of its own, so that its failure is an answer too."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rankscope.analyzers.errors import MissingExtra
from rankscope.analyzers.interop.hta import IDLE, Breakdown, Kernel, LaunchStats, RankFigures

SCRIPT = Path(__file__).with_name("hta_process.py")
LIMIT_S = 3600.0  # HTA needs about 75 s for 1 GB of traces
_BREAKDOWN = ("kernel_time(us)", "compute_time(us)", "non_compute_time(us)", "idle_time(us)")
_KERNEL = ("sum (us)", "max (us)", "min (us)", "mean (us)")
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Figures:
    """HTA's figures by rank, and where it fails its last words by rank.

    `kernel_types`: microseconds of all ranks together by what ran at once; HTA does not tell the ranks apart there.
    """

    version: str
    ranks: Mapping[int, RankFigures]
    kernel_types: Mapping[str, float] = field(default_factory=dict)
    failures: Mapping[int, tuple[str, ...]] = field(default_factory=dict)


def figures(files: Mapping[int, str], *, last_step: bool, python: str | None = None) -> Figures:
    """Run HTA on the ranks' files, one by one if it fails on all. `python`: an interpreter that has it; None: this one.

    Raises MissingExtra when HTA is not installed there.
    """
    if python is None and importlib.util.find_spec("hta") is None:
        raise MissingExtra("HTA", "traceinsight", "hta")
    together = _asked(files, last_step, python)
    if not together.failures or len(files) < 2:
        return together
    return _joined([_asked({rank: path}, last_step, python) for rank, path in files.items()])


def _joined(apart: Iterable[Figures]) -> Figures:
    """Figures of ranks that were asked about one by one."""
    version = ""
    types: dict[str, float] = defaultdict(float)
    ranks: dict[int, RankFigures] = {}
    failures: dict[int, tuple[str, ...]] = {}
    for one in apart:
        version = version or one.version
        for kind, us in one.kernel_types.items():
            types[kind] += us
        ranks |= one.ranks
        failures |= one.failures
    return Figures(version, ranks, types, failures)


def _asked(files: Mapping[int, str], last_step: bool, python: str | None) -> Figures:
    request = json.dumps({"files": {str(rank): path for rank, path in files.items()}, "last_step": last_step})
    try:
        done = subprocess.run(
            [python or sys.executable, str(SCRIPT)], input=request, capture_output=True, text=True, timeout=LIMIT_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Figures("", {}, failures=dict.fromkeys(files, (str(error),)))
    if "No module named 'hta'" in done.stderr:
        raise MissingExtra("HTA", "traceinsight", "hta")
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        last_words = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        return Figures("", {}, failures=dict.fromkeys(files, (last_words,)))
    failed = tuple(f"{figure}: {words}" for figure, words in answer["failures"].items())
    types, kernels = answer.get("get_gpu_kernel_breakdown", ((), ()))
    return Figures(
        version=answer["version"],
        ranks=_by_rank(answer, kernels, files),
        kernel_types={row["kernel_type"]: float(row["sum"]) for row in types if row["sum"]},
        failures=dict.fromkeys(files, failed) if failed else {},
    )


def _by_rank(answer: Row, kernels: Iterable[Row], files: Iterable[int]) -> dict[int, RankFigures]:
    breakdown = {
        int(row["rank"]): Breakdown(*(float(row[name]) for name in _BREAKDOWN))
        for row in answer.get("get_temporal_breakdown", ())
    }
    overlap = {int(row["rank"]): row["comp_comm_overlap_pctg"] for row in answer.get("get_comm_comp_overlap", ())}
    by_name: dict[int, dict[str, Kernel]] = defaultdict(dict)
    for row in kernels:
        by_name[int(row["rank"])][row["name"]] = Kernel(*(float(row[name]) for name in _KERNEL))
    idle: dict[int, dict[str, float]] = defaultdict(lambda: dict.fromkeys(IDLE, 0.0))
    for row in answer.get("get_idle_time_breakdown", ()):
        idle[int(row["rank"])][row["idle_category"]] += float(row["idle_time"] or 0)
    launches = {int(rank): LaunchStats(*sums) for rank, sums in answer.get("get_cuda_kernel_launch_stats", {}).items()}
    return {
        rank: RankFigures(
            breakdown.get(rank), overlap.get(rank), {}, by_name.get(rank, {}), idle.get(rank, {}), launches.get(rank)
        )
        for rank in files
    }
