"""For tests of frameworks: no last line, and no folder of this repository in the place of another project's package."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """transformers imports the package `kernels`, which is no folder of ours; `rankscope` itself is imported already."""
    monkeypatch.setenv("RANKSCOPE_QUIET", "1")
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if Path(entry).resolve() != ROOT])
