"""The reader of merged timelines: all ranks of a pipeline in one file, each a process, ranges as begins and ends.

Of the ranges `forward` and `backward` are understood, as the device's compute, and the marks of iterations, as steps.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from rankscope.analyzers.errors import UnreadableTrace
from rankscope.analyzers.trace.model import Trace, TraceMeta
from rankscope.analyzers.trace.readers import exact_time, foreign, parts
from rankscope.analyzers.trace.readers.columns import Batch, Names, Tables
from rankscope.analyzers.trace.readers.forgiving import ForgivingTier, integer
from rankscope.analyzers.trace.readers.heads import Head
from rankscope.analyzers.trace.readers.kineto import Reading
from rankscope.analyzers.trace.readers.opening import Progress, Text
from rankscope.analyzers.trace.tables import DeviceEvents

BEGINS = re.compile(rb'"ph"\s*:\s*"B"')
OTHER_WORDS = re.compile(
    rb'"cat"\s*:\s*"(?:cpu_op|user_annotation|kernel|cuda_runtime|python_function|Operator)"|NEGOTIATE_'
)
COMPUTE = frozenset({"forward", "backward"})
STEP_BEGINS, STEP_ENDS = "iteration begin", "iteration end"
MOST_RANKS = 1 << 10  # each costs a reading of the file
Event = dict[str, Any]


def sniff(head: bytes, name: str) -> bool:
    """Whether text that begins so may be a merged timeline; its name counts for nothing."""
    known = BEGINS.search(head) is not None and OTHER_WORDS.search(head) is None
    return known and foreign.why_not(head) is None


def heads_of(path: str) -> list[Head]:
    """One head a rank. Cost: the whole file is read."""
    found = []
    for rank, trace in _traces(path, None).items():
        first = int(trace.get(DeviceEvents).start_ns.min())
        found.append(Head(parts.part(path, rank), rank, None, 0, None, None, first, rank))
    return found


def read(place: str, *, progress: Progress | None = None) -> Trace:
    """One rank of the file; UnreadableTrace where it is not there. Cost: the whole file is read."""
    path, rank = parts.split(place)
    traces = _traces(path, progress)
    if rank is None and len(traces) == 1:
        (rank,) = traces
    if rank not in traces:
        raise UnreadableTrace(place, f"is one file of {len(traces)} ranks, which are read one by one")
    return traces[rank]


def _traces(path: str, progress: Progress | None) -> dict[int, Trace]:
    with Text(path, progress) as text:
        tier = MergedTier(Names())
        reading = Reading(text, lambda names: tier)
        closed = reading.through()
        damage = text.damage
    if not closed and not damage:
        damage = "the file's end is missing or damaged"
    traces = {rank: tier.trace(path, rank, damage) for rank in sorted(tier.ranks)}
    found = {rank: trace for rank, trace in traces.items() if DeviceEvents in trace}
    if not found:
        raise UnreadableTrace(path, foreign.without_rows(tier.phases, reading.entries))
    return found


@dataclass(slots=True)
class Rank:
    """One process of the file. `open`: ranges that have not ended, by thread; `begun`: iterations that have not."""

    tier: ForgivingTier
    rows: list[Batch] = field(default_factory=list)  # tables have room for thousands, and a file may name many ranks
    entries: int = 0
    unpaired: int = 0
    open: dict[str, list[Event]] = field(default_factory=lambda: defaultdict(list))
    begun: dict[int, Event] = field(default_factory=dict)
    unknown: Counter[str] = field(default_factory=Counter)

    def whole(self, event: Event) -> Event | None:
        """The timed event in Kineto's words that this one completes."""
        phase, name = event.get("ph"), str(event.get("name", ""))
        if phase == "B":
            self.open[str(event.get("tid"))].append(event)
        elif phase == "E":
            return self._ended(event)
        elif phase in ("i", "I"):
            return self._mark(event, name)
        elif phase == "X":
            return self._range(event)
        elif phase != "M":
            self.unknown[f"phase {phase}"] += 1
        return None

    def _ended(self, end: Event) -> Event | None:
        begun = self.open[str(end.get("tid"))]
        if not begun or end.get("name", begun[-1].get("name")) != begun[-1].get("name"):
            self.unpaired += 1
            return None
        return self._range(_between(begun.pop(), end))

    def _range(self, event: Event) -> Event | None:
        name = str(event.get("name", ""))
        if name not in COMPUTE:
            self.unknown[name] += 1
            return None
        return {**event, "cat": "kernel", "args": {"device": 0, "stream": event.get("tid")}}

    def _mark(self, event: Event, name: str) -> Event | None:
        arguments = event.get("args")
        number = integer(arguments.get("iteration")) if isinstance(arguments, dict) else None
        if name == STEP_BEGINS and number is not None:
            self.begun[number] = event
        elif name == STEP_ENDS and number in self.begun:
            step = _between(self.begun.pop(number), event)
            return {**step, "cat": "user_annotation", "name": f"ProfilerStep#{number}", "args": {}}
        else:
            self.unknown[name] += 1
        return None


class MergedTier(ForgivingTier):
    """Events of all ranks, each to its own tables; names are shared."""

    def __init__(self, names: Names) -> None:
        super().__init__(names)
        self.ranks: dict[int, Rank] = {}

    def batches(self, events: Iterable[object]) -> list[Batch]:
        """No rows here: every rank has its own."""
        rows: dict[int, list[Event]] = defaultdict(list)
        for event in events:
            rank = integer(event.get("pid")) if isinstance(event, dict) else None
            if not isinstance(event, dict) or rank is None or not 0 <= rank < MOST_RANKS:
                self.skipped += 1
                continue
            self.phases[str(event.get("ph"))] += 1
            of = self.ranks.setdefault(rank, Rank(ForgivingTier(self.names)))
            of.entries += 1
            done = of.whole(event)
            if done is not None:
                rows[rank].append(done)
        for rank, group in rows.items():
            of = self.ranks[rank]
            of.rows += of.tier.batches(group)
        return []

    def trace(self, path: str, rank: int, damage: str) -> Trace:
        """What was read of one rank. `damage`: why the file ended early, empty where it did not."""
        of = self.ranks[rank]
        left = of.unpaired + sum(map(len, of.open.values())) + len(of.begun)
        skipped = self.skipped + of.tier.skipped + left
        warnings = [
            "the file holds begins and ends of ranges: forward and backward are taken as compute, whatever is in them"
        ]
        warnings += [f"{left} begins or ends without the other were left out"] if left else []
        warnings += [f"{self.skipped} entries of no rank below {MOST_RANKS} were left out"] if self.skipped else []
        warnings += [damage] if damage else []
        meta = TraceMeta(
            path=parts.part(path, rank), rank=rank, world_size=None, backend=None, host=None, base_ns=0, trace_id=None,
            devices=(), groups=(), flags={}, events=of.entries, skipped_events=skipped, truncated=bool(damage),
            unknown_categories=dict(of.unknown), warnings=tuple(warnings + self.names.warnings()), knows_launches=False,
        )  # fmt: skip
        tables = Tables()
        tables.append(of.rows)
        return Trace(meta, self.names.texts, tables.finish())


def _between(begin: Event, end: Event) -> Event:
    """One timed event from two ends; without a duration where one of them has no time."""
    first, last = exact_time.from_number(begin.get("ts")), exact_time.from_number(end.get("ts"))
    known = first is not None and last is not None
    return {
        **begin,
        "ph": "X",
        "dur": (last - first) / 1000 if known and first is not None and last is not None else None,
    }
