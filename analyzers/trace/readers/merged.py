"""The reader of merged timelines: all ranks of a run in one file, each a process.

Without categories, the ranges `forward` and `backward` (begins and ends, or whole) are the device's compute, and marks of
iterations are steps: timelines of a pipeline. With Kineto's categories, events are what they are in Kineto's files; then
the names of the processes say the ranks, or an argument of every event (TraceFusion).
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from rankscope.analyzers.errors import UnreadableTrace
from rankscope.analyzers.trace.model import Trace, TraceMeta
from rankscope.analyzers.trace.readers import exact_time, foreign, parts
from rankscope.analyzers.trace.readers.categories import KINDS
from rankscope.analyzers.trace.readers.columns import Batch, Names, Tables
from rankscope.analyzers.trace.readers.forgiving import ForgivingTier, integer
from rankscope.analyzers.trace.readers.heads import Head
from rankscope.analyzers.trace.readers.kineto import Reading
from rankscope.analyzers.trace.readers.opening import Progress, Text
from rankscope.analyzers.trace.tables import DeviceEvents, HostEvents, RuntimeCalls

BEGINS = re.compile(rb'"ph"\s*:\s*"B"')
RANGES = re.compile(rb'"name"\s*:\s*"(?:forward|backward)"')
OTHER_WORDS = re.compile(
    rb'"cat"\s*:\s*"(?:cpu_op|user_annotation|kernel|cuda_runtime|python_function|Operator)"|NEGOTIATE_'
)
_NAME = rb'"args"\s*:\s*\{\s*"name"\s*:\s*"[^"\\]{0,64}?\brank[ _:#-]?(\d{1,7})\b[^"]{0,64}"\s*\}'
NAMED = re.compile(
    rb'"process_name"[^{}]{0,200}' + _NAME + rb"|" + _NAME + rb'[^{}]{0,200}"process_name"', re.IGNORECASE
)
FUSED, FUSED_RANK = "pid_raw", "rank"  # arguments that TraceFusion gives to every event
RANK = re.compile(r"\brank[ _:#-]?(\d{1,7})\b", re.IGNORECASE)
COMPUTE = frozenset({"forward", "backward"})
STEP_BEGINS, STEP_ENDS = "iteration begin", "iteration end"
MOST_RANKS = 1 << 10  # each costs a reading of the file
MOST_PROCESSES = 8 * MOST_RANKS
Event = dict[str, Any]
Pid = int | str


def sniff(head: bytes, name: str) -> bool:
    """Whether text that begins so may be a merged timeline; its name counts for nothing."""
    if foreign.why_not(head) is not None:
        return False
    if f'"{FUSED}"'.encode() in head:
        return True
    if len({first or second for first, second in NAMED.findall(head)}) > 1:
        return True
    timeline = BEGINS.search(head) is not None or RANGES.search(head) is not None
    return timeline and OTHER_WORDS.search(head) is None


def heads_of(path: str) -> list[Head]:
    """One head a rank. Cost: the whole file is read."""
    found = []
    for rank, trace in _traces(path, None).items():
        table = DeviceEvents if DeviceEvents in trace else HostEvents
        first = int(trace[table].ints("start_ns").min())
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
    traces = dict(tier.traces(path, damage))
    if not traces:
        raise UnreadableTrace(path, foreign.without_rows(tier.phases, reading.entries))
    return traces


@dataclass(slots=True)
class Process:
    """One process of the file. `open`: ranges that have not ended, by thread; `begun`: iterations that have not.

    `ranges` counts those of a timeline that were understood, `worded` the events in Kineto's words.
    """

    tier: ForgivingTier
    rank: int | None = None  # as its name says
    rows: list[Batch] = field(default_factory=list)  # tables have room for thousands, and a file may name many ranks
    entries: int = 0
    unpaired: int = 0
    ranges: int = 0
    worded: int = 0
    open: dict[str, list[Event]] = field(default_factory=lambda: defaultdict(list))
    begun: dict[int, Event] = field(default_factory=dict)
    unknown: Counter[str] = field(default_factory=Counter)

    @property
    def left(self) -> int:
        """Begins or ends without the other."""
        return self.unpaired + sum(map(len, self.open.values())) + len(self.begun)

    def whole(self, event: Event) -> Event | None:
        """The timed event in Kineto's words that this one completes."""
        phase, name, category = event.get("ph"), str(event.get("name", "")), event.get("cat")
        if isinstance(category, str) and category in KINDS:
            self.worded += 1
            return event
        if phase == "B":
            self.open[str(event.get("tid"))].append(event)
        elif phase == "E":
            return self._ended(event)
        elif phase in ("i", "I"):
            return self._mark(event, name)
        elif phase == "X":
            return self._range(event)
        elif phase == "M":
            self._named(event, name)
        else:
            self.unknown[f"phase {phase}"] += 1
        return None

    def _named(self, event: Event, name: str) -> None:
        arguments = event.get("args")
        said = RANK.search(str(arguments.get("name"))) if isinstance(arguments, dict) else None
        if name == "process_name" and said is not None:
            self.rank = int(said[1])

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
        self.ranges += 1
        return {**event, "cat": "kernel", "args": {"device": 0, "stream": event.get("tid")}}

    def _mark(self, event: Event, name: str) -> Event | None:
        arguments = event.get("args")
        number = integer(arguments.get("iteration")) if isinstance(arguments, dict) else None
        if name == STEP_BEGINS and number is not None:
            self.begun[number] = event
        elif name == STEP_ENDS and number in self.begun:
            step = _between(self.begun.pop(number), event)
            return {**step, "cat": "user_annotation", "name": f"ProfilerStep#{number}", "args": {}}
        elif not self.worded:  # Kineto has marks of its own, which say nothing
            self.unknown[name] += 1
        return None


class MergedTier(ForgivingTier):
    """Events of all processes, each to its own tables; names are shared."""

    def __init__(self, names: Names) -> None:
        super().__init__(names)
        self.processes: dict[Pid, Process] = {}

    def batches(self, events: Iterable[object]) -> list[Batch]:
        """No rows here: every process has its own."""
        rows: dict[Pid, list[Event]] = defaultdict(list)
        for event in events:
            process = self._process(event) if isinstance(event, dict) else None
            if not isinstance(event, dict) or process is None:
                self.skipped += 1
                continue
            self.phases[str(event.get("ph"))] += 1
            process.entries += event.get("ph") != "M"
            done = process.whole(event)
            if done is not None:
                rows[_pid(event)].append(done)
        for pid, group in rows.items():
            of = self.processes[pid]
            of.rows += of.tier.batches(group)
        return []

    def traces(self, path: str, damage: str) -> Iterator[tuple[int, Trace]]:
        """What was read of each rank, lowest first. `damage`: why the file ended early, empty where it did not."""
        of_rank: dict[int, list[Process]] = defaultdict(list)
        named = any(process.rank is not None for process in self.processes.values())
        nobodys = self.skipped
        for pid, process in self.processes.items():
            rank = process.rank if named or not isinstance(pid, int) else pid
            if rank is not None and 0 <= rank < MOST_RANKS:
                of_rank[rank].append(process)
            else:
                nobodys += process.entries
        for rank in sorted(of_rank):
            trace = self._trace(path, rank, of_rank[rank], nobodys, damage)
            if DeviceEvents in trace or (HostEvents in trace and any(process.worded for process in of_rank[rank])):
                yield rank, trace

    def _process(self, event: Event) -> Process | None:
        pid = _pid(event)
        found = self.processes.get(pid)
        if found is None and len(self.processes) < MOST_PROCESSES:
            found = self.processes[pid] = Process(ForgivingTier(self.names), _rank(event, pid))
        return found

    def _trace(self, path: str, rank: int, of: list[Process], nobodys: int, damage: str) -> Trace:
        left = sum(process.left for process in of)
        unknown: Counter[str] = sum((process.unknown + process.tier.unknown for process in of), Counter())
        warnings = []
        if any(process.ranges for process in of):
            warnings.append(
                "the file holds ranges of a timeline: forward and backward are taken as compute, whatever is in them"
            )
        warnings += [f"{left} begins or ends without the other were left out"] if left else []
        warnings += [f"{nobodys} entries of no rank below {MOST_RANKS} were left out"] if nobodys else []
        warnings += [damage] if damage else []
        tables = Tables()
        for process in of:
            tables.append(process.rows)
        found = tables.finish()
        meta = TraceMeta(
            path=parts.part(path, rank), rank=rank, world_size=None, backend=None, host=None, base_ns=0, trace_id=None,
            devices=(), groups=(), flags={}, events=sum(process.entries for process in of),
            skipped_events=nobodys + left + sum(process.tier.skipped for process in of), truncated=bool(damage),
            unknown_categories=dict(unknown), warnings=tuple(warnings + self.names.warnings()),
            knows_launches=RuntimeCalls in found,
        )  # fmt: skip
        return Trace(meta, self.names.texts, found)


def _pid(event: Event) -> Pid:
    pid = integer(event.get("pid"))
    return str(event.get("pid"))[:200] if pid is None else pid


def _rank(event: Event, pid: Pid) -> int | None:
    """The rank that a process's first event says."""
    arguments = event.get("args")
    if isinstance(arguments, dict) and FUSED in arguments:
        return integer(arguments.get(FUSED_RANK))
    said = RANK.search(pid) if isinstance(pid, str) else None
    return None if said is None else int(said[1])


def _between(begin: Event, end: Event) -> Event:
    """One timed event from two ends; without a duration where one of them has no time."""
    first, last = exact_time.from_number(begin.get("ts")), exact_time.from_number(end.get("ts"))
    known = first is not None and last is not None
    return {
        **begin,
        "ph": "X",
        "dur": (last - first) / 1000 if known and first is not None and last is not None else None,
    }
