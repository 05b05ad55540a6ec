"""From paths to the allocator snapshots among them; everything else is left to who reads traces."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from rankscope.analyzers.errors import UnreadableTrace
from rankscope.analyzers.memory.snapshot import SnapshotMemory, snapshot

ENDINGS: Final = (".pickle", ".pkl")
MOST_FILES: Final = 1_000  # snapshots below the paths
MOST_ENTRIES: Final = 200_000  # files looked at below one folder


@dataclass(slots=True)
class Snapshots:
    """What was read, what could not be, and the paths that are no snapshots themselves."""

    devices: list[SnapshotMemory] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    other_paths: list[str] = field(default_factory=list)


def gather(paths: Sequence[str]) -> Snapshots:
    """Read every snapshot named, and in folders those whose names say memory or snapshot."""
    found = Snapshots(other_paths=[path for path in paths if not path.lower().endswith(ENDINGS) or os.path.isdir(path)])
    named = [path for path in paths if path not in found.other_paths]
    below = [path for folder in found.other_paths if os.path.isdir(folder) for path in sorted(_below(folder))]
    if len(named) + len(below) > MOST_FILES:
        found.warnings.append(f"only the first {MOST_FILES:,} of {len(named) + len(below):,} snapshots were read")
    for path in [*named, *below][:MOST_FILES]:
        if not os.path.isfile(path):
            found.warnings.append(f"{path}: no such file, or not a regular one")
            continue
        try:
            found.devices += snapshot(path)
        except UnreadableTrace as error:
            found.warnings.append(f"{error.path}: {error.reason}")
        except OSError as error:
            found.warnings.append(f"{path}: cannot be read ({error.strerror or error})")
    return found


def _below(folder: str) -> Iterator[str]:
    """Links are not followed."""
    files = (os.path.join(root, name) for root, _, names in os.walk(folder) for name in names)
    for path in islice(files, MOST_ENTRIES):
        name = os.path.basename(path).lower()
        if name.endswith(ENDINGS) and ("memory" in name or "snapshot" in name) and not os.path.islink(path):
            yield path
