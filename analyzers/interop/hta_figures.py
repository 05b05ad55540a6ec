"""What HTA itself says of the same files: run in a process of its own, so that its failure is an answer too."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rankscope.analyzers.errors import MissingExtra
from rankscope.analyzers.interop.hta import Breakdown

SCRIPT = Path(__file__).with_name("hta_process.py")
LIMIT_S = 3600.0  # HTA needs about 75 s for 1 GB of traces


@dataclass(frozen=True, slots=True)
class Figures:
    """HTA's figures by rank, or by rank its last words (`failures`)."""

    version: str
    breakdown: Mapping[int, Breakdown]
    overlap_percent: Mapping[int, float | None]
    failures: Mapping[int, str] = field(default_factory=dict)


def figures(files: Mapping[int, str], *, last_step: bool, python: str | None = None) -> Figures:
    """Run HTA on the ranks' files, one by one if it fails on all. `python`: an interpreter that has it; None: this one.

    Raises MissingExtra when HTA is not installed there.
    """
    if python is None and importlib.util.find_spec("hta") is None:
        raise MissingExtra("HTA", "traceinsight", "hta")
    together = _asked(files, last_step, python)
    if not together.failures or len(files) < 2:
        return together
    apart = [_asked({rank: path}, last_step, python) for rank, path in files.items()]
    return Figures(
        version=next((one.version for one in apart if one.version), ""),
        breakdown={rank: figure for one in apart for rank, figure in one.breakdown.items()},
        overlap_percent={rank: figure for one in apart for rank, figure in one.overlap_percent.items()},
        failures={rank: words for one in apart for rank, words in one.failures.items()},
    )


def _asked(files: Mapping[int, str], last_step: bool, python: str | None) -> Figures:
    request = json.dumps({"files": {str(rank): path for rank, path in files.items()}, "last_step": last_step})
    try:
        done = subprocess.run(
            [python or sys.executable, str(SCRIPT)], input=request, capture_output=True, text=True, timeout=LIMIT_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Figures("", {}, {}, dict.fromkeys(files, str(error)))
    if "No module named 'hta'" in done.stderr:
        raise MissingExtra("HTA", "traceinsight", "hta")
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        last_words = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        return Figures("", {}, {}, dict.fromkeys(files, last_words))
    columns = ("kernel_time(us)", "compute_time(us)", "non_compute_time(us)", "idle_time(us)")
    return Figures(
        version=answer["version"],
        breakdown={int(row["rank"]): Breakdown(*(float(row[name]) for name in columns)) for row in answer["breakdown"]},
        overlap_percent={int(row["rank"]): row["comp_comm_overlap_pctg"] for row in answer["overlap"]},
    )
