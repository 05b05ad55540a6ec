"""Reads what one recorded process left, for tests of frameworks."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rankscope.collector.run_dir import EVENTS, MANIFEST, PULSE, Manifest, rank_folders


@dataclass(frozen=True, slots=True)
class Left:
    """One folder of a run directory."""

    manifest: Manifest
    pulse: list[dict[str, Any]]
    events: list[dict[str, Any]]

    def logged(self, name: str) -> list[float | None]:
        """A value of each step; None where it was not logged."""
        return [line.get("log", {}).get(name) for line in self.pulse]

    def failures(self) -> list[str]:
        """Probes that an event says failed."""
        return [event["probe"] for event in self.events if event["kind"] == "probe_failed"]


def left(run_dir: Path) -> list[Left]:
    """All folders, the oldest first."""
    found = []
    for folder in rank_folders(run_dir):
        path = Path(folder.path)
        manifest = Manifest.from_json((path / MANIFEST).read_text(encoding="utf-8"))
        found.append(Left(manifest, _lines(path / PULSE), _lines(path / EVENTS)))
    return sorted(found, key=lambda one: one.manifest.started_unix_ns)


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(text) for text in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []
