"""What is known of a hang, as the report and `--format json` show it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Word = Literal["hang", "mismatch", "stuck_together", "none", "unknown"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is known of a hang. `culprits`: most suspect first. `last_common`: what all of the group have done."""

    verdict: Word
    sentence: str
    culprits: list[int]
    group: str | None
    group_ranks: list[int]
    last_common: str | None
    evidence: list[str]
    waits: dict[int, list[int]] = field(default_factory=dict)  # rank -> the ranks it waits for
