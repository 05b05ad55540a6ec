"""Packages of npm that read what is exported: fetched when a test asks for one, never part of this repository."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest


def package(name: str, version: str, config: pytest.Config, *others: str) -> Path:
    """The folder of the installed package, with `others` beside it; skips the test where it cannot be fetched."""
    kept: pytest.Cache | None = getattr(config, "cache", None)
    if kept is None:
        pytest.skip("pytest keeps no cache here, where a package could be fetched to")
    folder = kept.mkdir(f"npm-{name.replace('/', '-')}-{version}")
    problem = _fetched(folder, (f"{name}@{version}", *others))
    if problem:
        pytest.skip(f"{name} cannot be fetched: {problem}")
    return folder / "node_modules" / name


@cache
def _fetched(folder: Path, wanted: tuple[str, ...]) -> str:
    """Why it is not there, empty where it is; asked once a session."""
    whole = folder / "whole"
    if whole.is_file():
        return ""
    npm = shutil.which("npm")
    if npm is None:
        return "npm is not here"
    options = ["--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries=1", "--prefix", str(folder)]
    try:
        done = subprocess.run([npm, "install", *options, *wanted], capture_output=True, text=True, timeout=180)
    except subprocess.TimeoutExpired:
        return "it takes longer than three minutes"
    if done.returncode:
        return (done.stderr.strip().splitlines() or ["no reason given"])[0]
    whole.touch()
    return ""
