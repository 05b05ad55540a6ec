"""Packages of npm that read what is exported: fetched when a test asks for one, never part of this repository."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest


def package(name: str, version: str, cache: pytest.Cache, *others: str) -> Path:
    """The folder of the installed package, with `others` beside it; skips the test where it cannot be fetched."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip(f"npm is not here to fetch {name}, which this test asks")
    folder = cache.mkdir(f"npm-{name.replace('/', '-')}-{version}")
    place = folder / "node_modules" / name
    if not (place / "package.json").is_file():
        wanted = [f"{name}@{version}", *others]
        done = subprocess.run(
            [npm, "install", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", str(folder), *wanted],
            capture_output=True,
            text=True,
            timeout=300,
        )
        if done.returncode:
            last_words = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
            pytest.skip(f"{name} cannot be fetched: {last_words}")
    return place
