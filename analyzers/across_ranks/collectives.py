"""Matching: which records of different ranks are one collective (docs/accounting.md, section 5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from rankscope.analyzers.across_ranks.alignment import align
from rankscope.analyzers.across_ranks.clock import Clocks, End
from rankscope.analyzers.across_ranks.clock_fit import SYMMETRIC, fit_clocks
from rankscope.analyzers.across_ranks.pings import HubPings
from rankscope.analyzers.across_ranks.pool import Pool, gather
from rankscope.analyzers.intervals import Bools, Ints, Spans
from rankscope.analyzers.one_rank.rank_record import RankRecord

ROOT_FIRST: Final = frozenset({"broadcast", "scatter"})  # leaves wait for the root
ROOT_LAST: Final = frozenset({"reduce", "gather"})  # the root waits for the leaves


@dataclass(frozen=True, slots=True)
class Match:
    """One collective: positions of its records in the pool, by lane. `inferred`: by alignment of ends, without Seq."""

    records: Ints
    group: int
    word: str
    kind: str  # symmetric, root_first, root_last, point_to_point
    inferred: bool


@dataclass(frozen=True, slots=True)
class Matches:
    """All collectives of a run, the clocks that came out of them, and what matching by alignment was sure of."""

    pool: Pool
    found: list[Match]
    clocks: Clocks
    margin: float | None
    warnings: list[str]

    @property
    def unmatched(self) -> int:
        """Records that no other rank's record belongs to; copies between devices do not count."""
        return int(self.pool.matchable.sum()) - sum(len(m.records) for m in self.found)


def match_collectives(
    ranks: Sequence[int], records: Sequence[RankRecord], pings: HubPings | None = None
) -> Matches:
    """Match what the ranks' files recorded. `ranks[i]` is the rank of `records[i]`, ascending; `pings`: between hosts."""
    pool = gather(ranks, records)
    taken = ~pool.matchable
    found = _point_to_point(pool, taken) + _by_sequence(pool, taken)
    hosts = [None if r.meta.host is None else f"{r.meta.host}\0{r.meta.base_ns}" for r in records]
    compared = _compared(pool)
    clocks = fit_clocks(hosts, _ends(pool, found), compared)
    aligned, margin, warnings = _by_alignment(pool, taken, clocks)
    found += aligned
    if aligned or pings is not None:
        clocks = fit_clocks(hosts, _ends(pool, found), compared, pings)
    begin = clocks.common(pool.lane, pool.start)
    found.sort(key=lambda m: (int(begin[m.records].min()), int(m.records[0])))
    return Matches(pool, found, clocks, margin, warnings)


def _kind(word: str) -> str:
    if word in ROOT_FIRST:
        return "root_first"
    return "root_last" if word in ROOT_LAST else "symmetric"


def _point_to_point(pool: Pool, taken: Bools) -> list[Match]:
    """Sends with receives by (source, destination) and order; `Seq` is counted per rank and says nothing here."""
    ends: dict[tuple[int, int], tuple[list[int], list[int]]] = {}
    for word, side in (("send", 0), ("receive", 1)):
        if word not in pool.words:
            continue
        for i in np.flatnonzero((pool.word == pool.words.index(word)) & pool.has_peer & ~taken):
            own, other = pool.ranks[int(pool.lane[i])], int(pool.peer[i])
            ends.setdefault((own, other) if side == 0 else (other, own), ([], []))[side].append(int(i))
    found = []
    for sends, receives in ends.values():
        if len(sends) != len(receives):
            pairs = align(_spans(pool, np.array(sends, np.int64)), _spans(pool, np.array(receives, np.int64)), None)
            if pairs is None:
                continue
            sends, receives = [sends[i] for i in pairs.first], [receives[i] for i in pairs.second]
        for send, receive in zip(sends, receives, strict=True):
            taken[[send, receive]] = True
            found.append(
                Match(np.array([send, receive]), int(pool.group[send]), "send_receive", "point_to_point", False)
            )
    return found


def _spans(pool: Pool, rows: Ints, clocks: Clocks | None = None) -> Spans:
    """Own times, or with `clocks` times on the common clock of their component."""
    times = pool.start[rows], pool.end[rows]
    return Spans(*times) if clocks is None else Spans(*(clocks.common(pool.lane[rows], t) for t in times))


def _by_sequence(pool: Pool, taken: Bools) -> list[Match]:
    """Records with the same (group, Seq, collective); a Seq that repeats on one rank (coalesced) by occurrence."""
    rows = np.flatnonzero(pool.has_seq & ~taken & ~np.isin(pool.word, _ids(pool, ("send", "receive"))))
    if not len(rows):
        return []
    order = rows[np.lexsort((pool.start[rows], pool.lane[rows], pool.word[rows], pool.seq[rows], pool.group[rows]))]
    key = np.stack((pool.group[order], pool.seq[order], pool.word[order]))
    same_lane = np.concatenate(([False], (key[:, 1:] == key[:, :-1]).all(axis=0) & (np.diff(pool.lane[order]) == 0)))
    keyed = np.vstack((key, _run_position(same_lane)))
    by_key = np.lexsort((pool.lane[order], keyed[3], keyed[2], keyed[1], keyed[0]))
    order, keyed = order[by_key], keyed[:, by_key]
    new = (keyed[:, 1:] != keyed[:, :-1]).any(axis=0)
    found = []
    for records in np.split(order, np.flatnonzero(new) + 1):
        if len(records) > 1:
            word = pool.words[int(pool.word[records[0]])]
            taken[records] = True
            found.append(Match(records, int(pool.group[records[0]]), word, _kind(word), False))
    return found


def _run_position(same: Bools) -> Ints:
    """How many true values in a row end at each position."""
    position = np.arange(len(same))
    start = np.maximum.accumulate(np.where(same, 0, position))
    return position - start


def _ids(pool: Pool, words: Sequence[str]) -> list[int]:
    return [i for i, word in enumerate(pool.words) if word in words]


def _by_alignment(pool: Pool, taken: Bools, clocks: Clocks) -> tuple[list[Match], float | None, list[str]]:
    """What has no Seq, per (group, collective, size class): each rank's sequence aligned with the longest one's."""
    rows = np.flatnonzero(~taken & ~np.isin(pool.word, _ids(pool, ("send", "receive"))))
    found: list[Match] = []
    margins: list[float] = []
    warnings: list[str] = []
    if not len(rows):
        return found, None, warnings
    rows = rows[np.lexsort((pool.start[rows], pool.lane[rows], pool.size[rows], pool.word[rows], pool.group[rows]))]
    key = np.stack((pool.group[rows], pool.word[rows], pool.size[rows]))
    for members in np.split(rows, np.flatnonzero((key[:, 1:] != key[:, :-1]).any(axis=0)) + 1):
        if pool.has_seq[members].all():  # told apart by Seq: whoever shares none has no peer's record
            continue
        matches, margin, ambiguous = _align_class(pool, members, clocks)
        for match in matches:
            taken[match.records] = True
        found += matches
        margins += [margin] if margin is not None else []
        if ambiguous:
            word, group = pool.words[int(pool.word[members[0]])], pool.groups[int(pool.group[members[0]])].label
            warnings.append(
                f"{word} of {group}: rank {ambiguous} cannot be aligned with the others and stays unmatched"
            )
    return found, min(margins, default=None), warnings


def _align_class(pool: Pool, members: Ints, clocks: Clocks) -> tuple[list[Match], float | None, str]:
    lanes = np.unique(pool.lane[members])
    if len(lanes) < 2:
        return [], None, ""
    sequences = {int(lane): members[pool.lane[members] == lane] for lane in lanes}
    longest = max(sequences, key=lambda lane: (len(sequences[lane]), -lane))
    reference = sequences[longest]
    columns: dict[int, list[int]] = {i: [int(record)] for i, record in enumerate(reference)}
    margins, ambiguous = [], []
    for lane, sequence in sequences.items():
        if lane == longest:
            continue
        one_clock = clocks.component(longest) == clocks.component(lane)
        aligned = align(_spans(pool, reference, clocks), _spans(pool, sequence, clocks), 0 if one_clock else None)
        if aligned is None:
            ambiguous.append(str(pool.ranks[lane]))
            continue
        margins.append(aligned.margin)
        for first, second in zip(aligned.first, aligned.second, strict=True):
            columns[int(first)].append(int(sequence[second]))
    word, group = pool.words[int(pool.word[members[0]])], int(pool.group[members[0]])
    matches = []
    for records in columns.values():
        kind = "symmetric" if word == "send_receive" else _kind(word)
        whole = word != "send_receive" or len(records) == len(pool.groups[group].ranks)
        if len(records) > 1 and whole and (kind == "symmetric" or pool.has_root[records].any()):
            name = "all_to_all" if word == "send_receive" else word
            matches.append(Match(np.sort(np.array(records, np.int64)), group, name, kind, True))
    finite = [m for m in margins if np.isfinite(m)]
    return matches, min(finite, default=None), ", ".join(ambiguous)


def _compared(pool: Pool) -> Spans:
    """By lane: from its first collective's begin to its last one's end, by its own clock; without any, end before begin."""
    lanes, at = len(pool.ranks), np.iinfo(np.int64)
    first, last = np.full(lanes, at.max), np.full(lanes, at.min)
    np.minimum.at(first, pool.lane, pool.start)
    np.maximum.at(last, pool.lane, pool.end)
    return Spans(first, last)


def _ends(pool: Pool, found: Sequence[Match]) -> list[End]:
    return [End(pool.lane[m.records], pool.end[m.records]) for m in found if m.word in SYMMETRIC]
