"""Windows of the profiler in a run directory: traces that the run's manifests complete."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from rankscope.analyzers.loading.discovery import shown
from rankscope.analyzers.loading.ranks import Capture
from rankscope.analyzers.loading.run_dirs import RecordedRun
from rankscope.analyzers.measured import OtherRun
from rankscope.analyzers.pulse.model import Recording
from rankscope.analyzers.pulse.readers.folder import trace_files
from rankscope.analyzers.quantities import plural
from rankscope.analyzers.run import MANIFEST, LoadedRank, Run
from rankscope.analyzers.trace.model import ProcessGroup
from rankscope.analyzers.trace.readers import Head, file_of
from rankscope.collector.run_dir import Manifest


def windows(run: RecordedRun, recording: Recording) -> dict[str, Manifest]:
    """The profiler's files of the reported attempt, each with the manifest of its process."""
    reported = {process.path for process in recording.processes}
    found = [f for attempt in run.attempts for f in attempt if shown(f.folder.path) in reported]
    return {path: f.manifest for f in found for path in trace_files(f.folder)}


def completed(head: Head, manifests: Mapping[str, Manifest]) -> Head:
    """A head with what the manifest knows and the trace does not say."""
    manifest = manifests.get(file_of(head.path))
    if manifest is None:
        return head
    return replace(
        head,
        rank=manifest.rank if head.rank is None else head.rank,
        world_size=manifest.world_size if head.world_size is None else head.world_size,
        host=(manifest.host or None) if head.host is None else head.host,
        pid=(manifest.pid or None) if head.pid is None else head.pid,
    )


def sourced(capture: Capture, head: Head, manifests: Mapping[str, Manifest]) -> Capture:
    """A capture that says so where its rank is the manifest's. `head`: as the trace itself has it."""
    if head.rank is None and file_of(capture.path) in manifests:
        return replace(capture, rank_source=MANIFEST)
    return capture


def enriched(loaded: LoadedRank, manifest: Manifest | None) -> LoadedRank:
    """A rank whose record has world, host, backend and groups of the manifest where its trace lacks them."""
    if manifest is None:
        return loaded
    meta = loaded.record.meta
    meta = replace(
        meta,
        world_size=manifest.world_size if meta.world_size is None else meta.world_size,
        backend=meta.backend or manifest.backend,
        host=meta.host or manifest.host or None,
        groups=meta.groups or tuple(_groups(manifest)),
    )
    return replace(loaded, record=replace(loaded.record, meta=meta))


def _groups(manifest: Manifest) -> Iterable[ProcessGroup]:
    for group in manifest.groups[:4096]:
        if not isinstance(group, dict):
            continue
        ranks = group.get("ranks")
        known = isinstance(ranks, list) and all(isinstance(r, int) and 0 <= r < 1 << 31 for r in ranks)
        members = tuple(ranks) if known and ranks is not None else None
        yield ProcessGroup(
            str(group.get("name", "")), str(group.get("description", "")), manifest.backend or "", members
        )


def without_traces(path: str, recording: Recording, others: Sequence[OtherRun], left_out: Sequence[str]) -> Run:
    """The run as its recording alone shows it. `left_out`: trace files that lie outside the run directory."""
    said = list(recording.warnings)
    if left_out:
        some = f"{plural(len(left_out), 'file')} outside the run directory, such as {shown(left_out[0])}"
        said.append(f"{some}, left out: name them without the run directory to have them read")
    if others:
        said.append(
            f"{plural(len(others) + 1, 'run')} were recorded here: this is {recording.id}; --run chooses another"
        )
    return Run(
        path=path,
        id=recording.id,
        started_unix_ns=recording.started_unix_ns,
        world_size=recording.world_size,
        ranks=(),
        missing_ranks=tuple(recording.missing_ranks),
        other_runs=tuple(others),
        unreadable=(),
        warnings=tuple(said),
        recording=recording,
    )


def with_recording(traced: Run, untraced: Run) -> Run:
    """One run of its traces and its recording; windows that are not reported are other runs."""
    return replace(
        traced,
        world_size=traced.world_size if traced.world_size is not None else untraced.world_size,
        other_runs=(*traced.other_runs, *untraced.other_runs),
        warnings=(*traced.warnings, *untraced.warnings),
        recording=untraced.recording,
    )
