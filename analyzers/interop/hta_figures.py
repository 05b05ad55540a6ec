"""What HTA itself says of the same files: run in a process of its own, so that its failure is an answer too."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rankscope.analyzers.errors import MissingExtra
from rankscope.analyzers.interop.hta import Breakdown

SCRIPT = Path(__file__).with_name("hta_process.py")
LIMIT_S = 3600.0  # HTA needs about 75 s for 1 GB of traces


@dataclass(frozen=True, slots=True)
class Figures:
    """HTA's figures by rank, or why there are none (`failure`, its last words)."""

    version: str
    breakdown: Mapping[int, Breakdown]
    overlap_percent: Mapping[int, float | None]
    failure: str = ""


def figures(files: Mapping[int, str], *, last_step: bool, python: str | None = None) -> Figures:
    """Run HTA on each rank's file. `python`: an interpreter that has it; None: this one.

    Raises MissingExtra when HTA is not installed there.
    """
    if python is None and importlib.util.find_spec("hta") is None:
        raise MissingExtra("HTA", "traceinsight", "hta")
    request = json.dumps({"files": {str(rank): path for rank, path in files.items()}, "last_step": last_step})
    try:
        done = subprocess.run(
            [python or sys.executable, str(SCRIPT)], input=request, capture_output=True, text=True, timeout=LIMIT_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Figures("", {}, {}, str(error))
    if "No module named 'hta'" in done.stderr:
        raise MissingExtra("HTA", "traceinsight", "hta")
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        return Figures("", {}, {}, (done.stderr.strip().splitlines() or ["it said nothing"])[-1])
    columns = ("kernel_time(us)", "compute_time(us)", "non_compute_time(us)", "idle_time(us)")
    return Figures(
        version=answer["version"],
        breakdown={int(row["rank"]): Breakdown(*(float(row[name]) for name in columns)) for row in answer["breakdown"]},
        overlap_percent={int(row["rank"]): row["comp_comm_overlap_pctg"] for row in answer["overlap"]},
    )
