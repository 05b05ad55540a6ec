"""Run: the rank records of one run of a job, and what was found beside it. What the loader hands to the analysis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rankscope.analyzers.measured import OtherRun
from rankscope.analyzers.one_rank.rank_record import RankRecord
from rankscope.analyzers.pulse.model import Recording

DISTRIBUTED_INFO, PROCESS_ID, FILE_NAME, ORDER = "distributedInfo", "process id", "file name", "order"
MANIFEST = "manifest"


@dataclass(frozen=True, slots=True)
class LoadedRank:
    """One rank's file. `rank_source`: where its rank was read, one of the names above."""

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
    """One run, ranks ascending. `path` is what the user named; `id` chooses this run (`--run`).

    `ranks` are those with a trace; what the collector left of the run beside traces is its `recording`.
    """

    path: str
    id: str
    started_unix_ns: int | None
    world_size: int | None
    ranks: tuple[LoadedRank, ...]
    missing_ranks: tuple[int, ...]  # of world_size; ranks that were not asked for are not missing
    other_runs: tuple[OtherRun, ...]
    unreadable: tuple[Unreadable, ...]
    warnings: tuple[str, ...]  # in plain words; those about one file name it
    recording: Recording | None = None

    @property
    def damaged(self) -> Sequence[str]:
        """Files that could not be read whole: refused, truncated, or with entries that are no events."""
        metas = [loaded.record.meta for loaded in self.ranks]
        recorded = self.recording.damaged if self.recording else []
        return [u.path for u in self.unreadable] + [m.path for m in metas if m.truncated or m.skipped_events] + recorded
