"""All ranks' collective records in one pool, with groups told by their members, whatever each rank calls them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import pairwise

import numpy as np

from rankscope.analyzers.intervals import Bools, Ints
from rankscope.analyzers.one_rank.collective_records import CollectiveRecords
from rankscope.analyzers.one_rank.rank_record import RankRecord


@dataclass(frozen=True, slots=True)
class Group:
    """A process group: its members where known, else the ranks that were seen in it; `label` names it in reports."""

    label: str
    ranks: tuple[int, ...]
    known: bool


@dataclass(frozen=True, slots=True)
class Pool:
    """All records of a run in columns.

    `lane` is the position of the rank; times are the rank's own, with its base added.
    """

    ranks: tuple[int, ...]  # lane -> rank
    lane: Ints
    row: Ints  # position in the rank's CollectiveRecords
    start: Ints
    end: Ints
    word: Ints  # position in `words`
    group: Ints  # position in `groups`
    size: Ints  # position in `words`
    seq: Ints
    has_seq: Bools
    root: Ints
    has_root: Bools
    peer: Ints
    has_peer: Bools
    bytes: Ints
    has_bytes: Bools
    matchable: Bools
    words: Sequence[str]
    groups: Sequence[Group]

    def __len__(self) -> int:
        return len(self.lane)


def gather(ranks: Sequence[int], records: Sequence[RankRecord]) -> Pool:
    """Put the ranks' tables together: one table of words and groups, absolute own times."""
    words: dict[str, int] = {}
    groups: dict[tuple[object, ...], int] = {}
    reference: dict[tuple[int, ...], list[tuple[int, int]]] = {}
    parts: list[dict[str, np.ndarray[tuple[int], np.dtype[np.generic]]]] = []
    for lane, record in enumerate(records):
        table, names = record[CollectiveRecords], record.names
        part: dict[str, np.ndarray[tuple[int], np.dtype[np.generic]]] = {
            "lane": np.full(len(table), lane, np.int64),
            "row": np.arange(len(table)),
            "start": table.start_ns + record.meta.base_ns,
            "end": table.end_ns + record.meta.base_ns,
            "word": _shared(table.collective_id, names, words),
            "size": _size_class(table, names, words),
            "matchable": table.matchable.astype(np.bool_),
        }
        part["group"] = _groups(table, names, part["word"], part["size"], groups, reference)
        for name in ("seq", "root", "peer", "bytes"):
            part[name], part[f"has_{name}"] = table.columns[name], table.valid(name)
        # A process with several devices shows each collective once a device; the busiest device stands for the rank.
        devices, count = np.unique(table.device, return_counts=True)
        if len(devices) > 1:
            part["matchable"] = part["matchable"] & (table.device == devices[np.argmax(count)])
        parts.append(part)
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]} if parts else _no_records()
    listed = _described(groups, columns, ranks)
    return Pool(tuple(ranks), **columns, words=list(words), groups=listed)


def _no_records() -> dict[str, np.ndarray[tuple[int], np.dtype[np.generic]]]:
    """The columns of a run without traces."""
    bools = {field.name for field in fields(Pool) if field.type == "Bools"}
    ints = {field.name for field in fields(Pool) if field.type == "Ints"}
    return {name: np.empty(0, np.bool_ if name in bools else np.int64) for name in bools | ints}


def _shared(ids: Ints, names: Sequence[str], words: dict[str, int]) -> Ints:
    distinct, inverse = np.unique(ids, return_inverse=True)
    return np.array([words.setdefault(names[int(i)], len(words)) for i in distinct], np.int64)[inverse]


def _size_class(table: CollectiveRecords, names: Sequence[str], words: dict[str, int]) -> Ints:
    """Bytes where known, else shapes or the kernel's name.

    All-to-all sizes differ by rank: their class is the name alone.
    """
    result = _shared(table.size_id, names, words)
    known = table.valid("bytes")
    uneven = np.isin(table.collective_id, [i for i, name in enumerate(names) if name == "all_to_all"])
    result = np.where(known, -1 - table.bytes, result)
    return np.where(uneven, 0, result)


def _groups(
    table: CollectiveRecords,
    names: Sequence[str],
    word: np.ndarray[tuple[int], np.dtype[np.generic]],
    size: np.ndarray[tuple[int], np.dtype[np.generic]],
    groups: dict[tuple[object, ...], int],
    reference: dict[tuple[int, ...], list[tuple[int, int]]],
) -> Ints:
    """Groups by member set, whatever their name on this rank.

    Equal members on one rank stay apart by name and pair across ranks by order of first use, then by collective and
    size. Without members the name is all there is.
    """
    pair = table.members_id.astype(np.int64) * len(names) + table.group_id
    distinct, first, inverse = np.unique(pair, return_index=True, return_inverse=True)
    of = np.zeros(len(distinct), np.int64)
    used: dict[tuple[int, ...], set[int]] = {}
    for d in np.argsort(first, kind="stable"):
        members = names[int(distinct[d]) // len(names)]
        name = names[int(distinct[d]) % len(names)]
        if not members:
            of[d] = groups.setdefault(("name", name), len(groups))
            continue
        ranks = tuple(sorted(int(r) for r in members.split(",")))
        signature = (int(word[first[d]]), int(size[first[d]]))
        slots, mine = reference.setdefault(ranks, []), used.setdefault(ranks, set())
        free = [i for i in range(len(slots)) if i not in mine]
        slot = next((i for i in free if slots[i] == signature), free[0] if free else len(slots))
        if slot == len(slots):
            slots.append(signature)
        mine.add(slot)
        of[d] = groups.setdefault(("members", ranks, slot), len(groups))
    return of[inverse] if len(distinct) else np.empty(0, np.int64)


def _described(
    groups: dict[tuple[object, ...], int],
    columns: dict[str, np.ndarray[tuple[int], np.dtype[np.generic]]],
    ranks: Sequence[int],
) -> list[Group]:
    result = []
    for key, position in groups.items():
        if key[0] == "members":
            members = key[1]
            assert isinstance(members, tuple)
            extra = f" ({int(str(key[2])) + 1})" if key[2] else ""
            result.append(Group(f"{_ranks_text(members)}{extra}", members, known=True))
        else:
            seen = np.unique(columns["lane"][columns["group"] == position])
            text = f"group {key[1]}" if key[1] else "group not recorded"
            result.append(Group(text, tuple(int(ranks[int(lane)]) for lane in seen), known=False))
    return result


def _ranks_text(ranks: Sequence[int]) -> str:
    """Ranks as ranges: 0-7, or with a stride 0,8,...,56."""
    if len(ranks) > 2:
        step = ranks[1] - ranks[0]
        if all(b - a == step for a, b in pairwise(ranks)):
            return f"ranks {ranks[0]}-{ranks[-1]}" if step == 1 else f"ranks {ranks[0]},{ranks[1]},..,{ranks[-1]}"
    return "ranks " + ",".join(map(str, ranks[:8])) + (",.." if len(ranks) > 8 else "")
