"""Ranks wait in a collective that another rank of the group has not entered, or has entered with something else.

Why it matters: such a job stands until a timeout ends it, and every rank that waits looks as guilty as the one that is
waited for.
How it is measured: PyTorch's flight recorder, dumped by the collector when a step takes too long, on an exception or a
signal: what each rank has asked of its groups and what is done, compared by sequence number. Ranks that are waited for
and wait for nobody are named.
What to do: `rankscope hang RUN_DIR` shows who waits for whom and where in the code; look at the stacks of the named rank.
"""

from __future__ import annotations

from collections.abc import Iterator

from rankscope.analyzers.analysis import Analysis
from rankscope.analyzers.findings import Evidence, Finding, MissingSignal
from rankscope.analyzers.hang.dumps import Dump
from rankscope.analyzers.hang.judging import judge
from rankscope.analyzers.pulse.either import recording_of
from rankscope.analyzers.pulse.job import failed, rank_end
from rankscope.analyzers.pulse.model import Process

TITLE = "Hang"
AFTERWARDS = "stop"  # the reason of a dump at the regular end, when ranks need not have come equally far
NAMED = 8  # lines of evidence (ours)
READS = ("pulse",)
RECORD = (
    "TORCH_FR_BUFFER_SIZE=2000 rankscope run -- torchrun ... train.py  # PyTorch's flight recorder, on from the start"
)


def check(analysis: Analysis) -> Iterator[Finding]:
    """Name the ranks that others wait for, where a collective was not ended."""
    recording = recording_of(analysis.run)
    processes = recording.later or recording.processes
    if not any(process.dumps for process in processes):
        raise MissingSignal("no flight recorder was dumped", RECORD)
    dumps = [dump for process in processes if (dump := _dump(process)) is not None]
    if not any(entry.reason != AFTERWARDS for process in processes for entry in process.dumps):
        return
    found = judge(dumps, recording.world_size)
    gone = {end.rank for process in processes if failed(end := rank_end(process))}
    if found.verdict in ("none", "unknown") or (found.verdict == "hang" and set(found.culprits) <= gone):
        return  # who has failed does not come: the rule early-end names it
    files = [dump.path for dump in dumps if dump.rank in found.culprits]
    yield Finding(
        rule="",
        kind="risk",
        severity="critical",
        message=found.sentence,
        ranks=found.culprits,
        steps=[],
        cost_ns=None,
        cause=None,
        confidence=0.9 if found.culprits else 0.6,
        evidence=[Evidence(line, "flight recorder", "text") for line in found.evidence[:NAMED]],
        advice=f"rankscope hang {recording.path}: who waits for whom, and where in the code.",
        where=" ".join([f"In {found.group}."] * bool(found.group) + [f"Dumps: {', '.join(files[:2])}."] * bool(files)),
        expected="Every rank enters the same collectives in the same order.",
    )


def _dump(process: Process) -> Dump | None:
    """The dump that says most: one of a hang, an exception or a signal before the one at the end."""
    ordered = sorted(process.dumps, key=lambda dump: (dump.reason == AFTERWARDS, dump.path))
    pending = [entry.dump for entry in ordered if entry.dump.pending]
    return pending[0] if pending else ordered[0].dump if ordered else None
