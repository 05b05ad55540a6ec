"""Loading: from paths to the records of one run. All effects of the analysis are here: files, the cache, processes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from rankscope.analyzers.errors import BadSelection, NothingToRead, UnreadableTrace
from rankscope.analyzers.loading import sentences
from rankscope.analyzers.loading.cache import CAP_BYTES, Cache, alike, default_folder
from rankscope.analyzers.loading.discovery import Found, discover, shown
from rankscope.analyzers.loading.ranks import Capture, captures
from rankscope.analyzers.loading.reading import Progress, Reading
from rankscope.analyzers.loading.run_dirs import chosen_run, read_recording, recorded_runs
from rankscope.analyzers.loading.run_windows import (
    completed,
    enriched,
    sourced,
    windows,
    with_recording,
    without_traces,
)
from rankscope.analyzers.loading.runs import RunFiles, chosen, holding, runs, without_copies
from rankscope.analyzers.loading.worker import read_heads
from rankscope.analyzers.measured import OtherRun
from rankscope.analyzers.one_rank.rank_record import RankRecord, RecordOptions
from rankscope.analyzers.run import LoadedRank, Run, Unreadable
from rankscope.analyzers.trace.readers import Head, file_of
from rankscope.collector.run_dir import Manifest


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

    Of a run directory everything is read together. Raises NothingToRead when no file is a trace and no folder a run
    directory, BadSelection when the run or the ranks asked for are not there.
    """
    options = options or LoadOptions()
    found = discover(paths)
    refused = {u.path: u.reason for u in found.refused}
    if not found.run_dirs:
        return _traced(paths, options, progress, found, refused, {})
    recorded = recorded_runs(found.run_dirs)
    run_of = chosen_run(recorded, options.run)
    recording = read_recording(run_of, options.ranks)
    manifests = windows(run_of, recording)
    if options.run is not None and run_of.id.startswith(options.run):
        options = replace(options, run=None)
    others = [other.as_other() for other in recorded if other.id != run_of.id]
    untraced = without_traces(shown(" ".join(paths)), recording, others, found.files)
    found.files = list(manifests)
    try:
        return with_recording(_traced(paths, options, progress, found, refused, manifests), untraced)
    except NothingToRead:  # no window of the profiler, or none that can be read
        said = sentences.refused_files(refused)
        unreadable = tuple(Unreadable(shown(path), reason) for path, reason in refused.items())
        return replace(untraced, unreadable=unreadable, warnings=(*untraced.warnings, *said))


def _traced(
    paths: Sequence[str],
    options: LoadOptions,
    progress: Progress | None,
    found: Found,
    refused: dict[str, str],
    manifests: Mapping[str, Manifest],
) -> Run:
    """The run of the trace files found; NothingToRead where there is none. `manifests`: of their processes, where known."""
    cache = options.cache()
    heads = _heads(found.files, cache, refused)
    reading = Reading(options.record, cache, options.jobs, progress, refused)
    first: str | None = None
    while heads:
        whole = {path: completed(head, manifests) for path, head in heads.items()}
        known = [sourced(c, heads[c.path], manifests) for c in captures(whole)]
        kept, copies = without_copies(known, alike)
        among = runs(kept)
        run = (first and holding(among, first)) or chosen(among, options.run)
        wanted = _wanted(run, options.ranks)
        unread = [c.path for c in wanted if c.path not in reading.records]
        if not unread:
            said = sentences.warnings(found, refused, run, wanted, among, copies)
            said += [cache.problem] if cache.problem else []
            return _run(paths, run, wanted, among, reading, said, manifests)
        reading.read(unread)
        # what is learnt from whole files must not change the choice
        first = next((path for path in unread if path in reading.records), first)
        heads = {p: _completed(head, reading.records.get(p)) for p, head in heads.items() if p not in refused}
    raise NothingToRead(sentences.nothing(paths, found.looked_at, refused))


def _heads(files: Sequence[str], cache: Cache, refused: dict[str, str]) -> dict[str, Head]:
    heads: dict[str, Head] = {}
    for path in files:
        try:
            heads |= {head.path: head for head in read_heads(path, cache)}
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


def _run(
    paths: Sequence[str],
    run: RunFiles,
    wanted: Sequence[Capture],
    among: Sequence[RunFiles],
    reading: Reading,
    warnings: Sequence[str],
    manifests: Mapping[str, Manifest],
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
        ranks=tuple(enriched(_loaded(c, reading.records[c.path]), manifests.get(file_of(c.path))) for c in wanted),
        missing_ranks=tuple(sorted(set(range(run.world_size or 0)) - set(run.ranks))),
        other_runs=tuple(others),
        unreadable=tuple(Unreadable(shown(path), reason) for path, reason in reading.refused.items()),
        warnings=tuple(warnings),
    )


def _loaded(capture: Capture, record: RankRecord) -> LoadedRank:
    rank = capture.rank or 0
    facts = replace(record.facts, peers=[replace(peer, rank=rank) for peer in record.facts.peers])
    return LoadedRank(rank, capture.rank_source, shown(capture.path), replace(record, facts=facts))
