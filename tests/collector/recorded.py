"""Reads what a run left, and starts real runs: scripts of `scripts/` in processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rankscope.collector.run_dir import EVENTS, MANIFEST, PULSE, Manifest, rank_folders

ROOT = Path(__file__).parents[2]
SCRIPTS = Path(__file__).parent / "scripts"


@dataclass(frozen=True, slots=True)
class Recorded:
    """One rank's folder."""

    folder: Path
    manifest: Manifest
    pulse: list[dict[str, Any]]
    events: list[dict[str, Any]]

    def kinds(self) -> list[str]:
        return [event["kind"] for event in self.events]

    def median_ns(self, stage: str, skip: int = 5) -> tuple[float, float]:
        """Of a stage after the first steps: the whole, and what was not waiting in collectives."""
        rows = self.pulse[skip:]
        whole = sorted(row["stages"].get(stage, 0) for row in rows)
        local = sorted(row["stages"].get(stage, 0) - row["wait"].get(stage, 0) for row in rows)
        return whole[len(whole) // 2], local[len(local) // 2]


def lines(path: Path) -> list[dict[str, Any]]:
    """Whole lines; a last one without its end is no record."""
    if not path.exists():
        return []
    return [json.loads(text) for text in path.read_text(encoding="utf-8").split("\n")[:-1]]


def recorded(run_dir: Path) -> list[Recorded]:
    """All folders of a run, by rank."""
    found = []
    for folder in rank_folders(run_dir):
        path = Path(folder.path)
        manifest = Manifest.from_json((path / MANIFEST).read_text(encoding="utf-8"))
        found.append(Recorded(path, manifest, lines(path / PULSE), lines(path / EVENTS)))
    return found


def one(run_dir: Path) -> Recorded:
    """The only folder of a run."""
    (found,) = recorded(run_dir)
    return found


def environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RANKSCOPE")}
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    return {**kept, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", **more}


def start(*words: str | Path, **more: str) -> subprocess.Popen[str]:
    """A Python process with these arguments."""
    return subprocess.Popen(
        [sys.executable, *map(str, words)], env=environment(**more), text=True, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )  # fmt: skip


def python(*words: str | Path, **more: str) -> subprocess.CompletedProcess[str]:
    """A Python process with these arguments, run to its end."""
    return subprocess.run(
        [sys.executable, *map(str, words)], env=environment(**more), text=True, capture_output=True, timeout=120,
        check=False,
    )  # fmt: skip


def torchrun(ranks: int, *words: str | Path, **more: str) -> subprocess.CompletedProcess[str]:
    """A command of torchrun on this machine, run to its end."""
    return python("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks), *words, **more)
