"""Parts of files that hold several ranks: `merged.json/rank 3`, a path behind a file, where no file can lie."""

from __future__ import annotations

import os
import re

_PART = re.compile(r"(.+)/rank (\d{1,7})", re.DOTALL)


def part(path: str, rank: int) -> str:
    """The place of one rank in a file of several."""
    return f"{path}/rank {rank}"


def split(place: str) -> tuple[str, int | None]:
    """The file of a place, and the rank where the place is a part of it."""
    found = _PART.fullmatch(place)
    if found is None or not os.path.isfile(found[1]):
        return place, None
    return found[1], int(found[2])


def file_of(place: str) -> str:
    """The file of a place, which is the place itself for files of one rank."""
    return split(place)[0]
