"""Ranks that ask for different things under one number of a group: the minority is named."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

from rankscope.analyzers.hang.dumps import Operation
from rankscope.analyzers.hang.ranks import Ranks
from rankscope.analyzers.hang.verdict import Verdict
from rankscope.analyzers.quantities import spans

# inputs of one size on every rank; all-to-all and object collectives may differ
SAME_SIZE: Final = (
    "all_reduce",
    "allreduce",
    "_all_gather_base",
    "_allgather_base",
    "_reduce_scatter_base",
    "broadcast",
)


def mismatch(ranks: Ranks) -> Verdict | None:
    """The earliest number under which members of a group ask for different things."""
    found: list[tuple[int, str, int, dict[int, Operation]]] = []
    for key, group in ranks.groups.items():
        asked: dict[int, dict[int, Operation]] = defaultdict(dict)
        for rank in group.ranks:
            for operation in ranks.operations(rank, key[0]):
                if operation.peer is None:
                    asked[operation.seq][rank] = operation
        for seq in sorted(asked):
            if len({_signature(operation) for operation in asked[seq].values()}) > 1:
                found.append((min(o.created_ns for o in asked[seq].values()), key[0], seq, asked[seq]))
                break
    if not found:
        return None
    _, name, seq, by_rank = min(found, key=lambda item: (item[0], item[1]))
    signatures = Counter(_signature(operation) for operation in by_rank.values())
    most = signatures.most_common(1)[0][0]
    minority = sorted(rank for rank, operation in by_rank.items() if _signature(operation) != most)
    first = min(by_rank)
    title = ranks.title(first, name)
    evidence = [
        f"{'rank' if len(who) == 1 else 'ranks'} {spans(who)}: {_described(by_rank[who[0]])}" for who in _alike(by_rank)
    ]
    return Verdict(
        "mismatch",
        f"Under number {seq} of {title} the ranks ask for different things; ranks {spans(minority)} differ from most.",
        minority, title, list(ranks.members(first, name)), ranks.last_common(first, name, before=seq), evidence,
    )  # fmt: skip


def _signature(operation: Operation) -> tuple[object, ...]:
    """What has to be the same on every rank."""
    numbers = tuple(_product(size) for size in operation.sizes) if operation.name in SAME_SIZE else ()
    return (operation.name, operation.dtypes, numbers)


def _product(size: Iterable[int]) -> int:
    result = 1
    for length in size:
        result *= length
    return result


def _alike(by_rank: Mapping[int, Operation]) -> list[list[int]]:
    """Ranks by what they ask for, the fewest first."""
    found: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for rank in sorted(by_rank):
        found[_signature(by_rank[rank])].append(rank)
    return sorted(found.values(), key=lambda who: (len(who), who))


def _described(operation: Operation) -> str:
    sizes = ", ".join("x".join(map(str, size)) or "scalar" for size in operation.sizes[:3])
    where = f", at {operation.frames[0]}" if operation.frames else ""
    return f"{operation.name} of {sizes or 'nothing'} {', '.join(dict.fromkeys(operation.dtypes))}{where}"
