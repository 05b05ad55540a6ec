"""Run: the rank records of one run of a job, and what was found beside it. What the loader hands to the analysis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rankscope.analyzers.measured import OtherRun
from rankscope.analyzers.one_rank.rank_record import RankRecord

DISTRIBUTED_INFO, PROCESS_ID, FILE_NAME, ORDER = "distributedInfo", "process id", "file name", "order"


@dataclass(frozen=True, slots=True)
class LoadedRank:
    """One rank's file. `rank_source`: where its rank was read, one of the four names above."""

    rank: int
    rank_source: str
    path: str
    record: RankRecord


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A file that could not be read as a trace, and why."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class Run:
    """One run, ranks ascending. `path` is what the user named; `id` chooses this run (`--run`)."""

    path: str
    id: str
    started_unix_ns: int | None
    world_size: int | None
    ranks: tuple[LoadedRank, ...]
    missing_ranks: tuple[int, ...]  # of world_size; ranks that were not asked for are not missing
    other_runs: tuple[OtherRun, ...]
    unreadable: tuple[Unreadable, ...]
    warnings: tuple[str, ...]  # in plain words; those about one file name it

    @property
    def damaged(self) -> Sequence[str]:
        """Files that could not be read whole: refused, truncated, or with entries that are no events."""
        metas = [loaded.record.meta for loaded in self.ranks]
        return [u.path for u in self.unreadable] + [m.path for m in metas if m.truncated or m.skipped_events]
