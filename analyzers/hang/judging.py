"""The verdict: which ranks did not come, came with something else, or are stuck, and who only waits for whom.

Every rank that has something pending waits: in the oldest pending operation, for the members of its group that have not
asked for it, or, in a transfer, for the other side. A rank that is waited for and waits for nobody itself is where a hang
comes from: it never came (its program is elsewhere), or its peers have finished what it has not (its device is stuck), or
it left no record at all while others wait for it. Ranks that ask for different things under one number disagree; the
smaller number of them is named.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rankscope.analyzers.hang.dumps import Dump
from rankscope.analyzers.hang.mismatch import mismatch
from rankscope.analyzers.hang.ranks import Ranks
from rankscope.analyzers.hang.verdict import Verdict, Word
from rankscope.analyzers.quantities import plural, spans


@dataclass(frozen=True, slots=True)
class Suspect:
    """A rank that is at the root of it, and why. `waiting`: how many ranks wait for it, directly or through others."""

    rank: int
    why: str
    waiting: int
    strength: int


def judge(dumps: Sequence[Dump], world_size: int | None = None) -> Verdict:
    """The verdict on the dumps of one job."""
    ranks = Ranks(dumps, world_size)
    disagreement = mismatch(ranks)
    if disagreement:
        return disagreement
    waits = {rank: _waits_for(ranks, rank) for rank in sorted(ranks.dumps) if ranks.dumps[rank].pending}
    if not waits:
        if ranks.silent and ranks.dumps:
            return _nothing(
                ranks, "unknown", f"No operation is pending, but ranks {spans(ranks.silent)} left no record."
            )
        return _nothing(ranks, "none", "No operation is pending: nobody waits for anybody.")
    suspects = _suspects(ranks, waits)
    if not suspects:
        return _together(ranks, waits)
    return _hang(ranks, waits, suspects)


# ---- who waits for whom


def _waits_for(ranks: Ranks, rank: int) -> set[int]:
    """Whom this rank waits for in its oldest pending operation; itself, where its peers are done with it."""
    oldest = ranks.dumps[rank].pending[0]
    others = [member for member in ranks.members(rank, oldest.group) if member != rank]
    if oldest.peer is not None:
        members = ranks.members(rank, oldest.group)
        return {members[oldest.peer]} if oldest.peer < len(members) else set()
    missing = {member for member in others if ranks.asked(member, oldest.group) < oldest.seq}
    if missing:
        return missing
    if others and all(ranks.done(member, oldest.group) >= oldest.seq for member in others):
        return {rank}
    return set()


def _suspects(ranks: Ranks, waits: Mapping[int, set[int]]) -> list[Suspect]:
    """Ranks that are waited for and wait for nobody else, those whom most wait for first."""
    reached = {rank: _reach(rank, waits) for rank in waits}
    found = []
    for rank in sorted(ranks.everyone):
        waiting = sum(rank in others for waiter, others in reached.items() if waiter != rank)
        own = waits.get(rank, set())
        if own == {rank}:
            found.append(Suspect(rank, _stuck(ranks, rank), waiting, 2))
        elif own or not waiting:
            continue
        elif rank in ranks.silent:
            found.append(Suspect(rank, _absent(ranks, rank), waiting, 3))
        elif rank not in waits:
            found.append(Suspect(rank, _never_came(ranks, rank, waits), waiting, 2))
    return sorted(found, key=lambda suspect: (-suspect.strength, -suspect.waiting, suspect.rank))


def _reach(rank: int, waits: Mapping[int, set[int]]) -> set[int]:
    """Everybody this rank waits for, directly or through others."""
    found: set[int] = set()
    todo = list(waits.get(rank, ()))
    while todo:
        one = todo.pop()
        if one not in found:
            found.add(one)
            todo += waits.get(one, ())
    return found


def _absent(ranks: Ranks, rank: int) -> str:
    if rank in ranks.empty:
        return f"rank {rank} left a dump without entries while its peers wait for it"
    return f"rank {rank} left no dump while its peers wait for it"


def _stuck(ranks: Ranks, rank: int) -> str:
    oldest = ranks.dumps[rank].pending[0]
    return (
        f"rank {rank} has not finished {oldest.name} number {oldest.seq} of {ranks.title(rank, oldest.group)}, which "
        "all its peers have: its device is stuck"
    )


def _never_came(ranks: Ranks, rank: int, waits: Mapping[int, set[int]]) -> str:
    for waiter in sorted(waits):
        if rank in waits[waiter]:
            missed = ranks.dumps[waiter].pending[0]
            return (
                f"rank {rank} never asked for {missed.name} number {missed.seq} of {ranks.title(waiter, missed.group)}, "
                f"in which rank {waiter} waits; its own last there is {ranks.asked(rank, missed.group)}"
            )
    return f"others wait for rank {rank}, which waits for nobody"


# ---- verdicts


def _hang(ranks: Ranks, waits: Mapping[int, set[int]], suspects: Sequence[Suspect]) -> Verdict:
    best = suspects[0].strength
    culprits = [suspect.rank for suspect in suspects if suspect.strength == best] + [
        suspect.rank for suspect in suspects if suspect.strength < best
    ]
    first = culprits[0]
    waiter = next((rank for rank in sorted(waits) if first in waits[rank]), first)
    group = ranks.dumps[waiter].pending[0].group if waiter in ranks.dumps else None
    many = len(culprits) > 1
    return Verdict(
        "hang",
        f"Rank{'s' if many else ''} {spans(culprits)} {'hold' if many else 'holds'} up "
        f"{plural(len(waits.keys() - set(culprits)), 'waiting rank')}.",
        culprits,
        ranks.title(waiter, group) if group is not None else None,
        list(ranks.members(waiter, group)) if group is not None else [],
        ranks.last_common(waiter, group) if group is not None else None,
        [suspect.why for suspect in suspects] + _waiting(ranks, waits),
        {rank: sorted(others - {rank}) for rank, others in waits.items()},
    )


def _together(ranks: Ranks, waits: Mapping[int, set[int]]) -> Verdict:
    """Nobody is missing: all sit in the same operation, or wait for each other in a circle."""
    circle = sorted({rank for rank in waits if rank in _reach(rank, waits)})
    first = circle[0] if circle else min(waits)
    group = ranks.dumps[first].pending[0].group
    if circle:
        sentence = f"Ranks {spans(circle)} wait for each other in a circle: they call groups in different orders."
        word: Word = "hang"
    else:
        sentence = "All ranks are in the same operation and none finishes: look at the network, not at a rank."
        word = "stuck_together"
    return Verdict(
        word, sentence, circle, ranks.title(first, group), list(ranks.members(first, group)),
        ranks.last_common(first, group), _waiting(ranks, waits), {r: sorted(o - {r}) for r, o in waits.items()},
    )  # fmt: skip


def _nothing(ranks: Ranks, word: Word, sentence: str) -> Verdict:
    return Verdict(word, sentence, sorted(ranks.silent) if word == "unknown" else [], None, [], None, [])


def _waiting(ranks: Ranks, waits: Mapping[int, set[int]]) -> list[str]:
    """Who waits for whom, ranks in the same place together."""
    places: dict[tuple[str, int, str, tuple[int, ...]], list[int]] = defaultdict(list)
    for rank, others in waits.items():
        oldest = ranks.dumps[rank].pending[0]
        if others != {rank}:
            places[(oldest.name, oldest.seq, ranks.title(rank, oldest.group), tuple(sorted(others)))].append(rank)
    return [
        f"{'rank' if len(who) == 1 else 'ranks'} {spans(who)} {'waits' if len(who) == 1 else 'wait'} in {name} number "
        f"{seq} of {title}" + (f" for {'rank' if len(others) == 1 else 'ranks'} {spans(others)}" if others else "")
        for (name, seq, title, others), who in sorted(places.items(), key=lambda item: item[1])
    ]
