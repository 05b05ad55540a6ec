"""A rank ended before its time: killed, by a signal, by an exception, or it never came.

Why it matters: the others wait for it in their next collective, until a timeout or the launcher ends them too; their
errors are loud and say nothing of the cause.
How it is measured: each process writes into its manifest how it ended. One that wrote nothing while others ended was
killed (out of memory, `kill -9`, a lost host) or still stands somewhere; an exception names its kind. The first to end
is named; what ended later mostly followed from it. Where dumps of the flight recorder show a hang, that is the cause.
What to do: read the log of the named rank around its last sign of life; for a killed one the kernel's log too (dmesg,
out of memory) and the scheduler's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from rankscope.analyzers.analysis import Analysis
from rankscope.analyzers.findings import CannotTell, Evidence, Finding
from rankscope.analyzers.pulse.either import recording_of
from rankscope.analyzers.pulse.hang import hang_of
from rankscope.analyzers.pulse.job import rank_end
from rankscope.analyzers.pulse.measured import RankEnd
from rankscope.analyzers.quantities import duration, plural, spans

TITLE = "Early end"
FINISHED = "finished"
_PLACE = re.compile(r"\[/[^\]\s]*\] ?")  # of PyTorch's own source, before the words
SHOWN = 60  # characters of an ending in the evidence (ours): the file has the rest
NAMED = 5  # other endings that the evidence lists (ours)
READS = ("pulse",)


def check(analysis: Analysis) -> Iterator[Finding]:
    """Name the rank that ended first, and how."""
    recording = recording_of(analysis.run)
    ends = [rank_end(process) for process in (recording.later or recording.processes)]
    odd = [end for end in ends if end.ended != FINISHED]
    if not odd and not recording.missing_ranks:
        return
    if all(end.ended is None for end in ends) and not recording.missing_ranks:
        raise CannotTell("no rank has said how it ended: the job is running, or all of it was killed at once")
    hang = hang_of(recording)
    if hang is not None and hang.verdict.culprits:
        raise CannotTell("the ranks ended for the hang that the rule `hang` names")
    first = _first(odd, ends)
    ranks = [first.rank] if first else list(recording.missing_ranks)
    yield Finding(
        rule="",
        kind="risk",
        severity="critical" if first is None or not _asked(first) else "warning",
        message=_message(first, recording.missing_ranks, recording.world_size),
        ranks=ranks,
        steps=[],
        cost_ns=None,
        cause=None,
        confidence=0.9 if first is not None and first.ended is not None else 0.7,
        evidence=_evidence(first, odd, recording.missing_ranks),
        advice=(
            "Read this rank's log around its last sign of life; of one that was killed the kernel's (dmesg: out of memory) "
            "and the scheduler's too."
        ),
        where=f"{first.path}{f' on {first.host}' if first.host else ''}." if first else recording.path,
        expected="The job runs to its end.",
    )


def _first(odd: Sequence[RankEnd], ends: Sequence[RankEnd]) -> RankEnd | None:
    """The one to end first: by its last sign of life; of those that wrote why, when they did. Signals come from outside,
    mostly after another's failure, so an exception or a silence is named before them.
    """
    if not odd:
        return None
    said = any(end.ended is not None for end in ends)
    silent = [end for end in odd if end.ended is None] if said else []
    failed = [end for end in odd if end.ended is not None and not _asked(end)]
    some = silent or failed or list(odd)
    if silent and failed:
        first = min(failed, key=_time)
        some = silent if _time(min(silent, key=_time)) <= _time(first) else failed
    return min(some, key=_time)


def _asked(end: RankEnd) -> bool:
    """Whether somebody asked it to end."""
    return end.ended is not None and end.ended.startswith("signal")


def _time(end: RankEnd) -> tuple[int, int]:
    return (end.last_unix_ns or 0, end.rank)


def _message(first: RankEnd | None, missing: Sequence[int], world_size: int) -> str:
    if first is None:
        they = "Rank" if len(missing) == 1 else "Ranks"
        return f"{they} {spans(missing)} of {world_size} left no record: never started, or lost with the host."
    after = f" after {plural(first.steps, 'step')}"
    if first.ended is None:
        return f"Rank {first.rank} stopped without a word{after}: killed, or lost with its host."
    how = _PLACE.sub("", first.ended.removeprefix("exception: "))
    if _asked(first):
        return f"Rank {first.rank} was ended by {first.ended}{after}."
    return f"Rank {first.rank} failed{after}: {how.rstrip('.')}."


def _short(ended: str | None) -> str:
    told = _PLACE.sub("", ended or "no word")
    return told if len(told) <= SHOWN else f"{told[: SHOWN - 3]}..."


def _evidence(first: RankEnd | None, odd: Sequence[RankEnd], missing: Sequence[int]) -> list[Evidence]:
    found = []
    if first is not None:
        found.append(Evidence("ended", _short(first.ended), "text"))
        for end in [end for end in odd if end is not first][:NAMED]:
            apart = (end.last_unix_ns or 0) - (first.last_unix_ns or 0)
            later = f"{duration(abs(apart))} {'later' if apart >= 0 else 'earlier'}"
            found.append(Evidence(f"rank {end.rank}, {later}", _short(end.ended), "text"))
        found.append(Evidence("ranks that did not finish", len(odd), "count"))
    if missing:
        found.append(Evidence("ranks without a record", spans(missing), "text"))
    return found
