"""How to read the numbers: the words of the report, each in a line."""

from __future__ import annotations

from rankscope.analyzers.findings import Diagnosis
from rankscope.reports.blocks import Section, Terms
from rankscope.reports.buckets import BUCKETS

ORDER = 90
TERMS: tuple[tuple[str, str], ...] = (
    (
        "step",
        "From the device's first work of a training step to its first work of the next; the device lags the host.",
    ),
    ("judged steps", "Complete steps after warm-up. Others are shown, and no rule looks at them."),
    ("exposed", "Time in which nothing more useful hides it: communication under compute costs nothing."),
    ("arrival", "When a rank enters a collective. The last to arrive makes the others wait."),
    (
        "wait and transfer",
        "A collective before, and after, its last rank arrived. A fast network cannot shorten the wait.",
    ),
    ("caused", "Waiting of others that is charged to a rank. What it merely passed on is charged to whoever began it."),
    ("cost a step", "Wall time that fixing this returns, at most. Costs of findings overlap and do not add up."),
    ("rank-time", "Time summed over ranks; never compared with wall time."),
    ("confidence", "How sure the finding is; 50 % at most where fewer than 3 steps were seen."),
    ("set aside", "An event with an impossible time. Its time counts as unknown; nothing else changes."),
    ("stage", "A part of the step on the training thread, by the pulse: data, forward, backward, optimizer and others."),
    ("own time", "A stage without what the thread was blocked in collectives: what a rank itself needs."),
    ("frontier", "At each stage's end the furthest rank's own time; its increments add up to the group's step."),
    ("goodput", "Wall time of whole steps, without checkpoints and steps done again, over all time since the start."),
    ("n/a", "Not recorded, or not to be told from what was recorded. Never the same as 0."),
)


def build(diagnosis: Diagnosis) -> Section | None:
    """None where there is no figure to read."""
    if not diagnosis.attribution and diagnosis.pulse is None:
        return None
    return Section("glossary", "How to read the numbers", (Terms(terms()),), detail=True)


def terms() -> tuple[tuple[str, str], ...]:
    """Every word and what it means: those of TERMS, then the parts of a step."""
    return (*TERMS, *((bucket.label, bucket.doc[0].upper() + bucket.doc[1:] + ".") for bucket in BUCKETS))


def page() -> str:
    """The glossary of docs/accounting.md."""
    rows = [f"| {word} | {meaning} |" for word, meaning in terms()]
    return "\n".join(["| word | meaning |", "|---|---|", *rows, ""])
