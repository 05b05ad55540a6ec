"""Real traces that are not part of this repository: a test that needs one skips with a reason where it is absent."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

FOLDER = Path(os.environ.get("RANKSCOPE_CORPUS") or Path(__file__).resolve().parents[1] / "../shared/corpus").resolve()


def corpus(relative: str) -> Path:
    """The file or folder of the corpus; skips the test where it is absent."""
    path = FOLDER / relative
    if not path.exists():
        pytest.skip(f"the corpus file {relative} is not here (RANKSCOPE_CORPUS)")
    return path
