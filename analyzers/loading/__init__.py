"""Loading: from paths to the records of one run. All effects of the analysis are here: files, the cache, processes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace

from rankscope.analyzers.errors import BadSelection, NothingToRead, UnreadableTrace
from rankscope.analyzers.findings import OtherRun
from rankscope.analyzers.loading import limits, sentences
from rankscope.analyzers.loading.cache import CAP_BYTES, Cache, default_folder
from rankscope.analyzers.loading.discovery import discover, shown
from rankscope.analyzers.loading.ranks import Capture, captures
from rankscope.analyzers.loading.runs import RunFiles, chosen, holding, runs, without_copies
from rankscope.analyzers.loading.worker import Reply, cached_record, read_head, reply_for, unpack_record
from rankscope.analyzers.loading.workers import each
from rankscope.analyzers.rank_record import RankRecord, RecordOptions
from rankscope.analyzers.run import LoadedRank, Run, Unreadable
from rankscope.analyzers.trace.readers import Head

ALONE_BYTES = (
    50_000_000  # uncompressed; below it, starting workers costs more than they save (0.2 s each, 180 MB/s a core)
)
Progress = Callable[[int, int], None]  # uncompressed bytes read, uncompressed bytes to read; both estimated


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """What to read and how. `cache_folder` None: the user's own; `jobs` None: as many as the machine allows."""

    ranks: Collection[int] | None = None
    run: str | None = None
    jobs: int | None = None
    use_cache: bool = True
    cache_folder: str | None = None
    cache_cap_bytes: int = CAP_BYTES
    record: RecordOptions = field(default_factory=RecordOptions)

    def cache(self) -> Cache:
        """The cache these options ask for."""
        return Cache((self.cache_folder or default_folder()) if self.use_cache else None, self.cache_cap_bytes)


def load_run(paths: Sequence[str], options: LoadOptions | None = None, progress: Progress | None = None) -> Run:
    """Read the newest whole run below these paths, or the one asked for; of other runs only the heads.

    Raises NothingToRead when no file is a trace, BadSelection when the run or the ranks asked for are not there.
    """
    options = options or LoadOptions()
    cache = options.cache()
    found = discover(paths)
    refused = {u.path: u.reason for u in found.refused}
    heads = _heads(found.files, cache, refused)
    records: dict[str, RankRecord] = {}
    first: str | None = None
    while heads:
        kept, copies = without_copies(captures(heads))
        among = runs(kept)
        run = (first and holding(among, first)) or chosen(among, options.run)
        wanted = _wanted(run, options.ranks)
        unread = [c.path for c in wanted if c.path not in records]
        if not unread:
            warnings = sentences.warnings(found, refused, run, wanted, among, copies)
            return _run(
                paths, run, wanted, among, records, refused, [*warnings, *([cache.problem] if cache.problem else [])]
            )
        _read(unread, options, cache, progress, records, refused)
        first = next(
            (path for path in unread if path in records), first
        )  # what is learnt now must not change the choice
        heads = {path: _completed(head, records.get(path)) for path, head in heads.items() if path not in refused}
    raise NothingToRead(sentences.nothing(paths, found.looked_at, refused))


def _heads(files: Sequence[str], cache: Cache, refused: dict[str, str]) -> dict[str, Head]:
    heads: dict[str, Head] = {}
    for path in files:
        try:
            heads[path] = read_head(path, cache)
        except UnreadableTrace as error:
            refused[path] = error.reason
        except OSError as error:
            refused[path] = f"cannot be read ({error.strerror or error})"
    return heads


def _completed(head: Head, record: RankRecord | None) -> Head:
    """A head with what only the whole file says: some writers put it behind the events."""
    if record is None:
        return head
    meta = record.meta
    return replace(
        head,
        rank=meta.rank if head.rank is None else head.rank,
        world_size=meta.world_size if head.world_size is None else head.world_size,
        base_ns=meta.base_ns if head.base_ns is None else head.base_ns,
        host=meta.host if head.host is None else head.host,
    )


def _wanted(run: RunFiles, ranks: Collection[int] | None) -> list[Capture]:
    wanted = [c for c in run.captures if ranks is None or c.rank in ranks]
    if ranks is not None and not wanted:
        raise BadSelection(f"run {run.id} has {sentences.ranks(run.ranks)}, none of those asked for")
    return wanted


def _read(
    paths: Sequence[str],
    options: LoadOptions,
    cache: Cache,
    progress: Progress | None,
    records: dict[str, RankRecord],
    refused: dict[str, str],
) -> None:
    """Every file ends in `records` or `refused`: from the cache, in this process, or in workers, largest first."""
    sizes: dict[str, int] = {}
    for path in paths:
        packed = _from_cache(path, options, cache)
        if packed is None:
            sizes[path] = limits.raw_size(path)
        else:
            records[path] = unpack_record(packed, shown(path))
    read = 0

    def done(path: str, reply: Reply) -> None:
        nonlocal read
        if reply.record is None:
            refused[path] = reply.reason or "could not be read"
        else:
            records[path] = unpack_record(reply.record, shown(path))
        cache.problem = cache.problem or reply.cache_problem
        read += sizes[path]
        if progress:
            progress(read, sum(sizes.values()))

    if progress and sizes:
        progress(0, sum(sizes.values()))
    if len(sizes) == 1 or options.jobs == 1 or sum(sizes.values()) < ALONE_BYTES:
        for path in sizes:
            done(path, reply_for(path, options.record, cache))
    else:
        largest_first = sorted(sizes, key=lambda path: -sizes[path])
        each(largest_first, limits.jobs(options.jobs, list(sizes.values())), options.record, cache, done)


def _from_cache(path: str, options: LoadOptions, cache: Cache) -> bytes | None:
    try:
        return cached_record(path, options.record, cache)
    except OSError:
        return None


def _run(
    paths: Sequence[str],
    run: RunFiles,
    wanted: Sequence[Capture],
    among: Sequence[RunFiles],
    records: dict[str, RankRecord],
    refused: dict[str, str],
    warnings: Sequence[str],
) -> Run:
    others = [
        OtherRun(other.id, other.ranks, other.started_ns, [shown(c.path) for c in other.captures])
        for other in among
        if other.id != run.id
    ]
    return Run(
        path=shown(" ".join(paths)),
        id=run.id,
        started_unix_ns=run.started_ns,
        world_size=run.world_size,
        ranks=tuple(_loaded(c, records[c.path]) for c in wanted),
        missing_ranks=tuple(sorted(set(range(run.world_size or 0)) - set(run.ranks))),
        other_runs=tuple(others),
        unreadable=tuple(Unreadable(shown(path), reason) for path, reason in refused.items()),
        warnings=tuple(warnings),
    )


def _loaded(capture: Capture, record: RankRecord) -> LoadedRank:
    rank = capture.rank or 0
    facts = replace(record.facts, peers=[replace(peer, rank=rank) for peer in record.facts.peers])
    return LoadedRank(rank, capture.rank_source, shown(capture.path), replace(record, facts=facts))
