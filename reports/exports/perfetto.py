"""All ranks on one clock for Perfetto (ui.perfetto.dev, or any reader of Chrome traces).

A group of tracks a rank: the steps, where the time went (one slice for each stretch of a bucket; their sums are the
report's), waits for other ranks, findings, then every stream and thread as recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

import numpy as np

from rankscope.analyzers.across_ranks.splits import root_position
from rankscope.analyzers.analysis import Analysis
from rankscope.analyzers.findings import Finding
from rankscope.analyzers.intervals import Ints, Spans, clip
from rankscope.analyzers.measured import StepLabel
from rankscope.analyzers.one_rank.hygiene import set_aside
from rankscope.analyzers.one_rank.launches import launches
from rankscope.analyzers.results.timeline import RowTimeline, begins, timelines
from rankscope.analyzers.trace.model import Trace
from rankscope.analyzers.trace.tables import RuntimeCalls
from rankscope.reports.buckets import BUCKETS
from rankscope.reports.exports.lanes import in_order, lanes
from rankscope.reports.exports.recorded import HOST, Events, Extent, beside, streams, threads
from rankscope.reports.exports.source import Source, within
from rankscope.reports.exports.trace_events import TraceEvents, text

Slice = tuple[str, str]  # name as JSON, the inside of the args


@dataclass(slots=True)
class Written:
    """Recorded events that were drawn, those of them on a lane beside their track, and those that have no time.

    `backwards`: events that begin before their launch by the file's clocks; no reader can draw an arrow to them.
    """

    events: int = 0
    beside: int = 0
    set_aside: int = 0
    backwards: int = 0


def write(source: Source, file: BinaryIO) -> Written:
    """Write the run. Memory: one rank's trace and a chunk of text."""
    out, written, analysis = TraceEvents(file), Written(), source.analysis
    first, comparable = begins(analysis)
    zero = int(first[comparable].min()) if len(first) else 0
    waited_for = _waited_for(analysis)
    for lane, rank, trace in source.traces():
        own = bool(comparable[lane])
        words = [f"rank {rank}", *([trace.meta.host] if trace.meta.host else [])]
        tracks = _Rank(source, lane, rank + 1, out, zero if own else int(first[lane]))  # process 0 is the idle one
        out.name_process(tracks.pid, ", ".join(words) + ("" if own else " (a clock of its own)"), lane)
        _analysed(tracks, timelines(analysis, lane, trace, source.options), waited_for)
        _recorded(tracks, trace, written)
    facts: dict[str, object] = {"made by": "rankscope", "run": analysis.run.id, "verdict": source.diagnosis.verdict}
    counts = {"events": written.events, "on a lane beside their track": written.beside, "set aside": written.set_aside}
    counts |= {"launches after what they launched, without an arrow": written.backwards}
    out.close(facts | counts)
    return written


@dataclass(slots=True)
class _Rank:
    """The tracks of one rank. `zero`: the time on the common clock that is 0 in the file."""

    source: Source
    lane: int
    pid: int
    out: TraceEvents
    zero: int
    tracks: int = 0
    names: dict[int, str] = field(default_factory=dict)

    @property
    def extent(self) -> Extent:
        """What of the file is wanted."""
        return self.source.extent(self.lane)

    def at(self, times: Ints) -> list[int]:
        """Times after the file's base as times of the export."""
        analysis = self.source.analysis
        shifted = times + analysis.records[self.lane].meta.base_ns
        common = analysis.matches.clocks.common(np.full(len(times), self.lane), shifted)
        found: list[int] = (common - self.zero).tolist()
        return found

    def draw(self, name: str, spans: Spans, one: Callable[[int], Slice], category: str, *, nested: bool) -> list[int]:
        """Slices on a new track, and on as many lanes beside it as they need; the track of each. They come `in_order`."""
        if not spans.size:
            return []
        lane = lanes(spans.start, spans.end, nested=nested)
        first = self.tracks + 1
        self.tracks += int(lane.max()) + 1
        for tid in range(first, self.tracks + 1):
            self.out.name_track(self.pid, tid, name if tid == first else f"{name} ({tid - first + 1})")
        drawn: list[int] = (lane + first).tolist()
        for i, (tid, begin, end) in enumerate(zip(drawn, self.at(spans.start), self.at(spans.end), strict=True)):
            told, args = one(i)
            self.out.slice(self.pid, tid, told, begin, end - begin, category, args)
        return drawn


# ---- what the analysis says ------------------------------------------------------------------------------------------


def _analysed(rank: _Rank, rows: list[RowTimeline], waited_for: Ints) -> None:
    for row in rows:
        of = "" if len(rows) == 1 else f" gpu {row.device}"
        _steps(rank, row, of)
        _buckets(rank, row, of)
    _waits(rank, waited_for)
    found = list(_findings(rank, rows))
    start, end = (np.array([each[i] for each in found], np.int64) for i in (0, 1))
    order = in_order(start, end)
    told = [found[i][2] for i in order.tolist()]
    rank.draw("findings", Spans(start[order], end[order]), told.__getitem__, "finding", nested=False)


def _steps(rank: _Rank, row: RowTimeline, of: str) -> None:
    begin, end = row.bounds[:-1], row.bounds[1:]
    shown = np.flatnonzero((end > begin) & within(rank.extent, begin, end))
    names = [text(_window(row.labels[i])) for i in shown.tolist()]
    rank.draw(f"steps{of}", Spans(begin[shown], end[shown]), lambda i: (names[i], ""), "step", nested=False)


def _window(label: StepLabel) -> str:
    if label is None:
        return "the whole capture"
    return f"step {label}" if isinstance(label, int) else label


def _buckets(rank: _Rank, row: RowTimeline, of: str) -> None:
    parts = [row.parts[bucket.part.partition(".")[2]] for bucket in BUCKETS if _has(row, bucket.part)]
    labels = [(text(bucket.label), text(bucket.key)) for bucket in BUCKETS if _has(row, bucket.part)]
    shown = [clip(part, *rank.extent) if rank.extent else part for part in parts]
    start, end = np.concatenate([p.start for p in shown]), np.concatenate([p.end for p in shown])
    order = in_order(start, end)
    bucket = np.repeat(np.arange(len(shown)), [p.size for p in shown])[order].tolist()
    spans = Spans(start[order], end[order])
    length = (spans.end - spans.start).tolist()

    def one(i: int) -> Slice:
        label, key = labels[bucket[i]]
        return label, f'"bucket":{key},"ns":{length[i]}'

    rank.draw(f"where the time went{of}", spans, one, "time", nested=False)


def _has(row: RowTimeline, part: str) -> bool:
    return part.partition(".")[2] in row.parts


def _waits(rank: _Rank, waited_for: Ints) -> None:
    analysis = rank.source.analysis
    pool, wait = analysis.matches.pool, analysis.splits.wait
    rows = np.flatnonzero((pool.lane == rank.lane) & (wait > 0))
    start = pool.start[rows] - analysis.records[rank.lane].meta.base_ns
    kept = within(rank.extent, start, start + wait[rows])
    rows, start = rows[kept], start[kept]
    order = in_order(start, start + wait[rows])
    rows, start = rows[order], start[order]

    def one(i: int) -> Slice:
        row = int(rows[i])
        args = f'"group":{text(pool.groups[int(pool.group[row])].label)},"ns":{int(wait[row])}'
        return text(f"waits for rank {waited_for[row]}: {pool.words[int(pool.word[row])]}"), args

    rank.draw("waits", Spans(start, start + wait[rows]), one, "wait", nested=False)


def _waited_for(analysis: Analysis) -> Ints:
    """Per record of a matched collective: the rank that it waits for, if it waits."""
    pool, arrival = analysis.matches.pool, analysis.splits.arrival
    result = np.full(len(pool), -1, np.int64)
    for match in analysis.matches.found:
        lane = pool.lane[match.records]
        at = int(np.argmax(arrival[match.records]))
        if match.kind == "root_first":
            root = root_position(match, pool.root, pool.has_root, lane, pool.ranks)
            at = at if root is None else root
        elif match.kind == "point_to_point":
            at = 0  # the sender
        result[match.records] = pool.ranks[int(lane[at])]
    return result


def _findings(rank: _Rank, rows: list[RowTimeline]) -> Iterator[tuple[int, int, Slice]]:
    """A finding over each of its steps on the ranks that it names (on all, where it names none), and its events."""
    number = rank.source.analysis.ranks[rank.lane]
    for finding in rank.source.diagnosis.findings:
        args = _about(finding)
        for row in rows[:1] if not finding.ranks or number in finding.ranks else ():
            for label, begin, end in zip(row.labels, row.bounds[:-1].tolist(), row.bounds[1:].tolist(), strict=True):
                if label is None or label in finding.steps:
                    yield begin, end, (text(finding.rule), args)
        for event in (event for evidence in finding.evidence for event in evidence.events if event.rank == number):
            begin, end = event.start_ns, event.start_ns + event.dur_ns
            if rank.extent is None or rank.extent[0] <= begin < rank.extent[1]:
                yield begin, end, (text(f"{finding.rule}: {event.name}"), args)


def _about(finding: Finding) -> str:
    told = {"severity": finding.severity, "problem": finding.message, "what to do": finding.advice}
    told |= {} if finding.cost_ns is None else {"cost_ns a step": str(finding.cost_ns)}
    return ",".join(f"{text(name)}:{text(value)}" for name, value in told.items())


# ---- what was recorded -----------------------------------------------------------------------------------------------


def _recorded(rank: _Rank, trace: Trace, written: Written) -> None:
    """Threads, streams, and arrows from launches to what they launched."""
    hygiene = set_aside(trace)
    written.set_aside += hygiene.total
    called_on: dict[int, int] = {}  # row of a runtime call -> its track
    for name, events in threads(trace, hygiene, rank.extent):
        drawn = _events(rank, trace, name, events, "host", written)
        calls = np.flatnonzero(events.table == HOST.index(RuntimeCalls)).tolist()
        called_on |= {int(events.row[i]): drawn[i] for i in calls}
    joined = launches(trace, hygiene)
    called_at = rank.at(trace.get(RuntimeCalls).start_ns)
    for name, events in streams(trace, hygiene, rank.extent):
        drawn = _events(rank, trace, name, events, "device", written)
        for row, track, at in zip(events.row.tolist(), drawn, rank.at(events.start), strict=True):
            call = int(joined.row[row])
            if not joined.launched[row] or call not in called_on:
                continue
            if at < called_at[call]:
                written.backwards += 1
            else:
                rank.out.arrow((rank.pid, called_on[call], called_at[call]), (rank.pid, track, at))
    for name, events in beside(trace, hygiene, rank.extent):
        _events(rank, trace, name, events, "other", written)


def _events(rank: _Rank, trace: Trace, name: str, events: Events, category: str, written: Written) -> list[int]:
    ids = events.name_id.tolist()
    for distinct in set(ids) - rank.names.keys():
        rank.names[distinct] = text(trace.names[distinct])
    spans, nested = Spans(events.start, events.end), category != "device"
    drawn = rank.draw(name, spans, lambda i: (rank.names[ids[i]], ""), category, nested=nested)
    written.events += len(drawn)
    written.beside += len(drawn) - drawn.count(min(drawn, default=0))
    return drawn
