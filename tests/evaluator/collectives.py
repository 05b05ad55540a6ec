"""Who waited, and who is charged with it: collectives of one run on one clock, nanosecond by nanosecond.

Written from docs/accounting.md, section 5, alone. Shares are fractions, so nothing is rounded here.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from typing import Any

from evaluator.events import Event, File
from evaluator.host_rows import working
from evaluator.rows import Record, Sweep

ROOT_FIRST, ROOT_LAST = {"broadcast", "scatter"}, {"reduce", "gather"}
Spans = list[tuple[int, int]]


@dataclass(eq=False)
class Meeting:
    """One collective: its event on each rank. `root`: rank, where the collective has one."""

    group: Any
    word: str
    events: dict[int, Event] = field(default_factory=dict)
    root: int | None = None

    def waits(self) -> dict[int, int] | None:
        """How long each rank waits; None where that cannot be known."""
        start = {rank: e.start for rank, e in self.events.items()}
        if len(start) < 2 or ((self.word in ROOT_FIRST | ROOT_LAST) and self.root not in start):
            return None
        until = dict.fromkeys(start, max(start.values()))
        if self.word in ROOT_FIRST | {"message"}:
            until = dict.fromkeys(start, start[self.root])  # type: ignore[index]
        elif self.word in ROOT_LAST:
            until = {rank: until[rank] if rank == self.root else start[rank] for rank in start}
        return {r: min(max(until[r] - e.start, 0), e.end - e.start) for r, e in self.events.items()}

    def queue(self) -> list[tuple[int, int]]:
        """Arrival and rank of those who wait and those who are waited for, in order."""
        arrivals = sorted((e.start, rank) for rank, e in self.events.items())
        if self.word in ROOT_FIRST:
            root = self.events[self.root].start  # type: ignore[index]
            return [(at, r) for at, r in arrivals if at <= root and r != self.root] + [(root, self.root or 0)]
        if self.word in ROOT_LAST:
            root = self.events[self.root].start  # type: ignore[index]
            return [(root, self.root or 0)] + [(at, r) for at, r in arrivals if at > root]
        return arrivals


def meetings(files: Iterable[File]) -> list[Meeting]:
    """Collectives by (members, Seq), messages by (source, destination, order). Every rank a file."""
    found: dict[Any, Meeting] = {}
    for file in files:
        rank = file.rank or 0
        order: dict[Any, int] = defaultdict(int)
        for e in (e for work in file.device.values() for e in work if "Collective name" in e.args):
            word, members = e.args["Collective name"], tuple(json.loads(e.args["Process Group Ranks"]))
            if word in ("send", "recv"):
                ends = (rank, e.args["Dst Rank"]) if word == "send" else (e.args["Src Rank"], rank)
                key = (*ends, order[word, ends])
                order[word, ends] += 1
                found.setdefault(key, Meeting(ends, "message", root=ends[0])).events[rank] = e
                continue
            key = members, e.args["Seq"]
            found.setdefault(key, Meeting(members, word)).events[rank] = e
            if word in ROOT_FIRST | ROOT_LAST:
                root = next(
                    (x.args["Rank"] for x in file.timed
                     if x.name == "record_param_comms" and x.args["External id"] == e.args["External id"]), None,
                )  # fmt: skip
                if root is not None:
                    found[key].root = members[root]
    return list(found.values())


def flights(file: File) -> list[Event]:
    """Collectives of a CPU rank: from a `c10d::` launch to the end of its `gloo:` event, paired by order."""
    asked = sorted((e for e in file.timed if e.name.startswith("c10d::")), key=lambda e: e.start)
    ended = sorted((e for e in file.timed if e.name.startswith("gloo:")), key=lambda e: e.start)
    assert len(asked) == len(ended)
    return [
        Event(a.name, a.cat, a.start, max(e.end, a.start), a.pid, a.tid, {}) for a, e in zip(asked, ended, strict=True)
    ]


def host_meetings(files: Iterable[File]) -> list[Meeting]:
    """All ranks of a CPU run take part in every collective, in one order."""
    found: dict[int, Meeting] = {}
    for file in files:
        for number, event in enumerate(flights(file)):
            found.setdefault(number, Meeting("all", event.name)).events[file.rank or 0] = event
    return list(found.values())


def split(found: list[Meeting], events: Iterable[Event]) -> list[Record]:
    """A record for each communication event."""
    wait: dict[int, tuple[int, Meeting]] = {}
    for meeting in found:
        for rank, length in (meeting.waits() or {}).items():
            wait[id(meeting.events[rank])] = length, meeting
    return [Record(e.start, e.end, *wait.get(id(e), (None, None))) for e in events]


# ---- exposed waits ---------------------------------------------------------------------------------------------------


def exposed(records: list[Record], covered: Spans) -> dict[Meeting, Spans]:
    """Nanoseconds of wait that nothing hides. `covered`: by computation, on CPU-only ranks also input and output."""
    hiding = covered + [(r.start + (r.wait or 0), r.end) for r in records]
    waiting = [(r.start, r.start + r.wait, r.key) for r in records if r.wait]
    sweep = Sweep()
    for begin, end in hiding:
        sweep.add("hidden", begin, end)
    for number, (begin, end, _) in enumerate(waiting):
        sweep.add((end, number), begin, end)
    found: dict[Meeting, Spans] = defaultdict(list)
    for begin, end in sweep.segments():
        if not sweep.active["hidden"]:
            claims = [key for key, count in sweep.active.items() if count and key]
            if claims:
                found[waiting[max(claims)[1]][2]].append((begin, end))
    return found


def covered_on(file: File) -> Spans:
    """When communication is hidden."""
    if file.device:
        return [(e.start, e.end) for work in file.device.values() for e in work if e.kind == "compute"]
    waiting = [e for name in ("loader", "checkpoint") for e in file.host.get(name, ()) if e.tid == file.main]
    return [(start, end) for start, end, _ in working(file)] + [(e.start, e.end) for e in waiting]


# ---- charging --------------------------------------------------------------------------------------------------------


@dataclass
class Charges:
    """Totals by rank, in nanoseconds."""

    waited: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    caused: dict[int, Fraction] = field(default_factory=lambda: defaultdict(Fraction))
    last: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    to: dict[int, dict[int, Fraction]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(Fraction)))
    met: dict[Any, tuple[int, dict[int, Fraction]]] = field(default_factory=dict)


def charge(found: list[Meeting], pieces: dict[int, dict[Meeting, Spans]]) -> Charges:
    """One pass in time order. `pieces[rank][meeting]`: exposed wait."""
    charges = Charges()
    split_ones = [m for m in found if m.word != "message" and m.waits() is not None]
    for meeting in sorted(split_ones, key=lambda m: max(e.start for e in m.events.values())):
        queue = meeting.queue()
        if len(queue) > 1:
            charge_one(charges, meeting, queue, pieces)
        for rank in meeting.events:
            charges.met[rank, meeting.group] = charges.waited[rank], dict(charges.to[rank])
    return charges


def charge_one(
    charges: Charges, meeting: Meeting, queue: list[tuple[int, int]], pieces: dict[int, dict[Meeting, Spans]]
) -> None:
    """Each gap was waited by those before it and caused by those after it, who pass on what they inherited."""
    first = queue[0][0]
    heirs = {rank: inheritance(charges, meeting, at - first, rank) for at, rank in queue[1:]}
    if meeting.word not in ROOT_FIRST | ROOT_LAST and queue[-1][0] > queue[-2][0]:
        charges.last[queue[-1][1]] += 1
    waited: dict[int, int] = defaultdict(int)
    to: dict[int, dict[int, Fraction]] = defaultdict(lambda: defaultdict(Fraction))
    for waiter, spans in ((rank, pieces[rank].get(meeting, [])) for _, rank in queue):
        for begin, end in spans:
            waited[waiter] += end - begin
            for piece, causers in cut(begin, end, waiter, meeting, queue, heirs, first):
                for causer in causers:
                    share = Fraction(piece[1] - piece[0], len(causers))
                    length, blame = heirs[causer]
                    if piece[0] < first + length:
                        for whom, part in blame.items():
                            to[waiter][whom] += share * part
                    else:
                        to[waiter][causer] += share
    for waiter, parts in to.items():
        charges.waited[waiter] += waited[waiter]
        for causer, share in parts.items():
            charges.to[waiter][causer] += share
            charges.caused[causer] += share


def cut(
    begin: int,
    end: int,
    waiter: int,
    meeting: Meeting,
    queue: list[tuple[int, int]],
    heirs: dict[int, tuple[int, dict[int, Fraction]]],
    first: int,
) -> Iterable[tuple[tuple[int, int], list[int]]]:
    """An exposed wait cut at arrivals and at the ends of what is inherited, with who had not come."""
    times = {at for at, _ in queue} | {first + length for length, _ in heirs.values()}
    bounds = [begin, *sorted(t for t in times if begin < t < end), end]
    for low, high in pairwise(bounds):
        late = [meeting.root or 0] if meeting.word in ROOT_FIRST else [r for at, r in queue if at > low]
        yield (low, high), late


def inheritance(charges: Charges, meeting: Meeting, lateness: int, rank: int) -> tuple[int, dict[int, Fraction]]:
    """How much of its lateness a rank passes on, and to whom in which parts."""
    before, known = charges.met.get((rank, meeting.group), (0, {}))
    since = charges.waited[rank] - before
    blame = {whom: share - known.get(whom, 0) for whom, share in charges.to[rank].items()}
    blame = {whom: share / since for whom, share in blame.items() if share > 0} if since else {}
    return (min(since, lateness), blame) if blame else (0, {})
