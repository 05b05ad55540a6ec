"""Small runs of two to four ranks on one clock, drawn at random."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from contract.layout import text
from contract.writer import Rank
from evaluator.made import add, happenings, kernel, marked, next_id
from hypothesis import strategies as st

WORDS = ("allreduce", "_allgather_base", "_reduce_scatter_base", "all_to_all", "broadcast", "reduce", "message")
GROUPS = {2: ([0, 1],), 3: ([0, 1, 2], [0, 1], [1, 2]), 4: ([0, 1, 2, 3], [0, 1], [2, 3], [0, 2], [1, 3])}
delay = st.one_of(st.just(0), st.integers(0, 9), st.integers(0, 120))


@dataclass(frozen=True)
class Call:
    """One collective: which, among whom, on which stream; per member how long it works before and who is not seen."""

    word: str
    group: int
    stream: int
    root: int
    works: tuple[int, int, int, int]
    transfer: int
    cut: int  # how much before the others the first member ends
    absent: int  # 5 and more: nobody


calls = st.builds(
    Call,
    st.sampled_from(WORDS),
    st.integers(0, 4),
    st.integers(0, 1),
    st.integers(0, 3),
    st.tuples(delay, delay, delay, delay),
    delay,
    st.one_of(st.just(0), st.integers(0, 60)),
    st.integers(0, 12),
)


@st.composite
def runs(draw: st.DrawFn, *, streams: int, noise: int) -> list[str]:
    """The files of a run. With one stream no two collectives of a rank overlap; `noise`: what else happens at most."""
    n = draw(st.integers(2, 4))
    ranks = [Rank(i, n, device=0) for i in range(n)]
    free: dict[tuple[int, int], int] = defaultdict(lambda: 10)
    seq: dict[int, int] = defaultdict(int)
    for call in draw(st.lists(calls, min_size=1, max_size=7)):
        meet(ranks, call, call.stream % streams, free, seq)
    last = max(free.values(), default=10)
    for rank in ranks:
        marked(rank, [0, draw(st.integers(1, last)), last + 5], False)
        rank.op("aten::empty", 0, last + 9)
        for h in draw(happenings("launch", "orphan", "copy", "blocking", "loader", most=noise)):
            add(rank, h)
    return [text(rank) for rank in ranks]


def meet(ranks: list[Rank], call: Call, stream: int, free: dict[tuple[int, int], int], seq: dict[int, int]) -> None:
    """Everybody works, comes, and leaves when all have come, or when the root has."""
    which = call.group % len(GROUPS[len(ranks)])
    members = GROUPS[len(ranks)][which]
    if call.word == "message":
        message(ranks, call, stream, free)
        return
    seq[which] += 1
    came = {}
    for position, rank in enumerate(members):
        begin = free[rank, stream]
        came[rank] = begin + call.works[position]
        if call.works[position] and stream == 0:
            kernel(ranks[rank], begin, came[rank], 7, next_id(ranks[rank]))
    root = call.root % len(members)
    for position, (rank, at) in enumerate(came.items()):
        end = max(came.values()) + call.transfer
        if call.word == "broadcast":
            end = max(at, came[members[root]]) + call.transfer
        elif call.word == "reduce" and position != root:
            end = at + call.transfer
        end = max(at, end - (call.cut if position == 0 else 0))
        if call.absent != position:
            rooted = root if call.word in ("broadcast", "reduce") else None
            where = {"ranks": members, "group": called(which, rank), "stream": 20 + stream}
            ranks[rank].collective(call.word, max(at - 5, 0), at, end, seq[which], root=rooted, **where)
        free[rank, stream] = end


def message(ranks: list[Rank], call: Call, stream: int, free: dict[tuple[int, int], int]) -> None:
    """One rank sends, its neighbour receives."""
    sender = call.root % len(ranks)
    receiver = (sender + 1) % len(ranks)
    sent, ready = free[sender, stream] + call.works[0], free[receiver, stream] + call.works[1]
    end = max(sent, ready) + call.transfer
    everyone = list(range(len(ranks)))
    for rank, word, at, peer in ((sender, "send", sent, receiver), (receiver, "recv", ready, sender)):
        where = {"ranks": everyone, "group": called(0, rank), "stream": 20 + stream}
        ranks[rank].collective(word, max(at - 5, 0), at, end, call.works[2], peer=peer, **where)
        free[rank, stream] = end


def called(group: int, rank: int) -> str:
    """Ranks call the same group by different names."""
    return f"{group}" if rank % 2 else f"group {group}"
