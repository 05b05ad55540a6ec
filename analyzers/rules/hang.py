"""Ranks wait in a collective that another rank of the group has not entered, or has entered with something else.

Why it matters: such a job stands until a timeout ends it, and every rank that waits looks as guilty as the one that is
waited for.
How it is measured: PyTorch's flight recorder, dumped by the collector when a step takes too long, on an exception or a
signal: what each rank has asked of its groups and what is done, compared by sequence number. Ranks that are waited for
and wait for nobody are named; where they are ranks that had failed, the rule `early-end` names them.
What to do: `rankscope hang RUN_DIR` shows who waits for whom and where in the code; look at the stacks of the named rank.
"""

from __future__ import annotations

from collections.abc import Iterator

from rankscope.analyzers.analysis import Analysis
from rankscope.analyzers.findings import Evidence, Finding, MissingSignal
from rankscope.analyzers.pulse.either import recording_of
from rankscope.analyzers.pulse.hang import hang_of

TITLE = "Hang"
NAMED = 8  # lines of evidence (ours)
READS = ("pulse",)
RECORD = (
    "TORCH_FR_BUFFER_SIZE=2000 rankscope run -- torchrun ... train.py  # PyTorch's flight recorder, on from the start"
)


def check(analysis: Analysis) -> Iterator[Finding]:
    """Name the ranks that others wait for, where a collective was not ended."""
    recording = recording_of(analysis.run)
    if not any(process.dumps for process in recording.later or recording.processes):
        raise MissingSignal("no flight recorder was dumped", RECORD)
    hang = hang_of(recording)
    if hang is None:
        return
    found = hang.verdict
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
        where=" ".join(
            [f"In {found.group}."] * bool(found.group) + [f"Dumps: {', '.join(hang.files[:2])}."] * bool(hang.files)
        ),
        expected="Every rank enters the same collectives in the same order.",
    )
