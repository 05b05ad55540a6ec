"""Reading: the files of a run on their way to records, from the cache, in this process or in workers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from rankscope.analyzers.loading import limits
from rankscope.analyzers.loading.cache import Cache
from rankscope.analyzers.loading.discovery import shown
from rankscope.analyzers.loading.worker import Reply, cached_record, reply_for, unpack_record
from rankscope.analyzers.loading.workers import each
from rankscope.analyzers.one_rank.rank_record import RankRecord, RecordOptions

ALONE_BYTES = (
    50_000_000  # uncompressed; below it, starting workers costs more than they save (0.2 s each, 180 MB/s a core)
)
Progress = Callable[[int, int], None]  # uncompressed bytes read, uncompressed bytes to read; both estimated


@dataclass(slots=True)
class Reading:
    """Every path given to `read` ends in `records` or, with its reason, in `refused`."""

    options: RecordOptions
    cache: Cache
    jobs: int | None
    progress: Progress | None
    refused: dict[str, str]
    records: dict[str, RankRecord] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)  # of what the cache did not have
    moved: dict[str, int] = field(default_factory=dict)  # of that, what was read
    kept: list[str] = field(default_factory=list)  # their records wait in the cache

    def read(self, paths: Sequence[str]) -> None:
        """Read these files. While workers run, records stay in the cache, so that memory does not grow with the ranks."""
        todo = [path for path in paths if not self._from_cache(path)]
        self.sizes |= {path: limits.raw_size(path) for path in todo}
        self.moved |= dict.fromkeys(todo, 0)
        self._tell()
        if len(todo) == 1 or self.jobs == 1 or sum(self.sizes[path] for path in todo) < ALONE_BYTES:
            for path in todo:
                self._alone(path)
            return
        largest_first = sorted(todo, key=lambda path: -self.sizes[path])
        jobs = limits.jobs(self.jobs, [self.sizes[path] for path in todo])
        each(largest_first, jobs, self.options, self.cache, self._done, self._moved)
        for path in self.kept:
            if not self._from_cache(path):  # evicted meanwhile
                self._alone(path)
        self.kept.clear()

    def _alone(self, path: str) -> None:
        self._done(path, reply_for(path, self.options, self.cache, lambda share: self._moved(path, share)))

    def _from_cache(self, path: str) -> bool:
        try:
            packed = cached_record(path, self.options, self.cache)
        except OSError:
            return False
        if packed is not None:
            self.records[path] = unpack_record(packed, shown(path))
        return packed is not None

    def _done(self, path: str, reply: Reply) -> None:
        self.cache.problem = self.cache.problem or reply.cache_problem
        if reply.record is not None:
            self.records[path] = unpack_record(reply.record, shown(path))
        elif reply.kept:
            self.kept.append(path)
        else:
            self.refused[path] = reply.reason or "could not be read"
        self._moved(path, 1.0)

    def _moved(self, path: str, share: float) -> None:
        moved = int(share * self.sizes[path])
        if moved > self.moved[path]:
            self.moved[path] = moved
            self._tell()

    def _tell(self) -> None:
        if self.progress and self.sizes:
            self.progress(sum(self.moved.values()), sum(self.sizes.values()))
