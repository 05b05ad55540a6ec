"""An average step of each rank and device, and which ranks stand out: what bars, tables and tiles are drawn from."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from rankscope.analyzers.findings import Diagnosis
from rankscope.analyzers.measured import Row
from rankscope.reports.buckets import BUCKETS, FAMILIES

FEW = 16
"""Up to so many rows are all shown; above, those that stand out lead."""
LEADING = 8
_STANDS_OUT_SHARE = 0.02  # of the median window: below, two ranks look alike in a bar


@dataclass(frozen=True, slots=True)
class RankTime:
    """One rank and device: mean window and buckets in ns over `steps` steps (0: the whole capture as one window)."""

    rank: int
    device: int | None
    label: str
    steps: int
    window_ns: float
    buckets: Mapping[str, float]

    def family_ns(self, family: str) -> float:
        """The buckets of one family together."""
        return sum(self.buckets[bucket.key] for bucket in BUCKETS if bucket.family == family)


def usable_rows(diagnosis: Diagnosis) -> list[Row]:
    """The numbered rows that rules see: not partial, in a usable step."""
    usable = set(diagnosis.run.usable_steps)
    return [
        row for row in diagnosis.attribution if isinstance(row.step, int) and not row.partial and row.step in usable
    ]


def rank_times(diagnosis: Diagnosis) -> list[RankTime]:
    """The mean usable step per rank and device; a rank without one is shown by its whole capture."""
    steps: defaultdict[tuple[int, int], list[Row]] = defaultdict(list)
    whole: dict[tuple[int, int], Row] = {}
    for row in usable_rows(diagnosis):
        steps[row_key(row)].append(row)
    for row in diagnosis.attribution:
        if row.step is None:
            whole[row_key(row)] = row
    label = labels(diagnosis.attribution)
    times = [_mean(label[key], steps.get(key, []), whole.get(key)) for key in sorted(label)]
    return [time for time in times if time is not None]


def row_key(row: Row) -> tuple[int, int]:
    """(rank, device), with -1 for a rank without a device, so that keys sort."""
    return row.rank, -1 if row.device is None else row.device


def labels(rows: Iterable[Row]) -> dict[tuple[int, int], str]:
    """`rank 3`, or `rank 3 gpu 1` where a process drives several devices."""
    devices: defaultdict[int, set[int]] = defaultdict(set)
    for row in rows:
        devices[row.rank].add(row_key(row)[1])
    return {
        (rank, device): f"rank {rank}" if len(of_rank) == 1 else f"rank {rank} gpu {device}"
        for rank, of_rank in devices.items()
        for device in of_rank
    }


def _mean(label: str, steps: Sequence[Row], whole: Row | None) -> RankTime | None:
    rows = steps or ([whole] if whole else [])
    if not rows:
        return None
    buckets = {bucket.key: bucket.total_ns(rows) / len(rows) for bucket in BUCKETS}
    window = sum(row.window_ns for row in rows) / len(rows)
    return RankTime(rows[0].rank, rows[0].device, label, len(steps), window, buckets)


def mean_of(label: str, times: Sequence[RankTime]) -> RankTime:
    """The mean over several ranks, as one."""
    buckets = {bucket.key: sum(t.buckets[bucket.key] for t in times) / len(times) for bucket in BUCKETS}
    return RankTime(-1, None, label, times[0].steps, sum(t.window_ns for t in times) / len(times), buckets)


def named_by(diagnosis: Diagnosis) -> dict[int, str]:
    """The ranks that findings name, each with the costliest that does."""
    return {rank: f"named by {finding.rule}" for finding in reversed(diagnosis.findings) for rank in finding.ranks}


def standing_out(diagnosis: Diagnosis, times: Sequence[RankTime]) -> dict[int, str]:
    """Indices into `times` worth a look first, and why: named by a finding, else far from the median in one family."""
    named = named_by(diagnosis)
    reasons = {i: named[time.rank] for i, time in enumerate(times) if time.rank in named}
    far = sorted(((*away, i) for i, away in enumerate(_furthest(times))), reverse=True)
    for distance, reason, i in far:
        if len(reasons) >= LEADING or distance <= 0:
            break
        reasons.setdefault(i, reason)
    return reasons


def _furthest(times: Sequence[RankTime]) -> list[tuple[float, str]]:
    """Per rank, its largest distance from the median in one family; 0 where a bar would not show it."""
    told = [(0.0, "")] * len(times)
    least = _STANDS_OUT_SHARE * median(time.window_ns for time in times)
    for family in FAMILIES:
        spent = [time.family_ns(family.key) for time in times]
        middle = median(spent)
        for i, ns in enumerate(spent):
            if abs(ns - middle) > max(told[i][0], least):
                told[i] = (abs(ns - middle), f"{'most' if ns > middle else 'least'} {family.label}")
    return told
