"""What of NCCL's own words points at a fault of links or set-up; statements about the machine, not about a step's time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from rankscope.analyzers.nccl.debug_log import Communicator

FEW_SHARE: Final = 0.5  # of the most channels among peers. Ours: a broken NVLink left 2 of 24, versions differ by less
_NAMED: Final = 8  # ranks or pairs named in a sentence


@dataclass(frozen=True, slots=True)
class Finding:
    """One statement, with the figures it rests on. `ranks` as far as ranks are to blame."""

    id: str
    communicator: str
    ranks: tuple[int, ...]
    sentence: str
    evidence: tuple[str, ...]


def judge(communicators: Sequence[Communicator]) -> tuple[Finding, ...]:
    """All findings, communicator by communicator."""
    most = _most_channels(communicators)
    return tuple(finding for comm in communicators for finding in _of_one(comm, most))


def hosts(comm: Communicator) -> int:
    """How many hosts its known ranks are on."""
    return len({rank.host for rank in comm.ranks})


def channels(comm: Communicator) -> int | None:
    """The most channels for collectives that one of its ranks has; None: no rank said."""
    return max((rank.coll_channels for rank in comm.ranks if rank.coll_channels is not None), default=None)


def _most_channels(communicators: Iterable[Communicator]) -> dict[tuple[int, int], Communicator]:
    """Of communicators of as many ranks on as many hosts, the one with the most channels."""
    most: dict[tuple[int, int], Communicator] = {}
    for comm in communicators:
        known = most.setdefault((comm.size, hosts(comm)), comm)
        if (channels(comm) or 0) > (channels(known) or 0):
            most[comm.size, hosts(comm)] = comm
    return most


def _of_one(comm: Communicator, most: dict[tuple[int, int], Communicator]) -> Iterator[Finding]:
    yield from _few_in_all(comm, most[comm.size, hosts(comm)])
    yield from _few_on_a_rank(comm)
    yield from _shared_memory(comm)
    yield from _sockets(comm)
    yield from _versions(comm)
    yield from _unfinished(comm)


def _few_in_all(comm: Communicator, best: Communicator) -> Iterator[Finding]:
    own, theirs = channels(comm), channels(best)
    if own is not None and theirs is not None and own <= FEW_SHARE * theirs:
        yield Finding(
            "few-channels",
            comm.id,
            (),
            f"The communicator has {own} channels, another of as many ranks on as many hosts has {theirs}: on the same "
            "kind of machine this is a link that is degraded or missing.",
            (f"{comm.id}: {own} coll channels", f"{best.id}: {theirs} coll channels"),
        )


def _few_on_a_rank(comm: Communicator) -> Iterator[Finding]:
    most = channels(comm)
    few = [r for r in comm.ranks if most and r.coll_channels is not None and r.coll_channels <= FEW_SHARE * most]
    if few:
        yield Finding(
            "few-channels",
            comm.id,
            tuple(rank.rank for rank in few),
            f"{_ranks([rank.rank for rank in few])} with far fewer channels than the communicator's {most}.",
            tuple(f"rank {rank.rank} on {rank.host}: {rank.coll_channels} coll channels" for rank in few[:_NAMED]),
        )


def _shared_memory(comm: Communicator) -> Iterator[Finding]:
    """Memory of the host between GPUs of which NCCL's own search, or another pair, says that they reach each other."""
    slow = [link for link in comm.connections if link.transport.startswith("SHM")]
    direct = [link for link in comm.connections if link.transport.startswith("P2P")]
    nvlink = [rank.rank for rank in comm.ranks if rank.paths_within in ("NVL", "NVB")]
    if slow and (direct or nvlink):
        why = "NCCL's search found NVLink" if nvlink else "other pairs reach each other directly (P2P)"
        yield Finding(
            "shm-beside-p2p",
            comm.id,
            tuple(sorted({link.source for link in slow})),
            f"{len(slow)} pairs of GPUs go through the host's memory (SHM), though {why}.",
            tuple(f"{link.source} -> {link.target} via {link.transport}" for link in slow[:_NAMED]),
        )


def _sockets(comm: Communicator) -> Iterator[Finding]:
    """TCP where there are InfiniBand or RoCE devices, or where other pairs use another network."""
    slow = [link for link in comm.connections if link.transport.startswith("NET/Socket")]
    other = [link for link in comm.connections if link.transport.startswith("NET/") and link not in slow]
    on_tcp = [rank.rank for rank in comm.ranks if rank.network == "Socket"]
    fabric = [rank.rank for rank in comm.ranks if rank.fabric or rank.network not in (None, "Socket")]
    accused = sorted({link.source for link in slow} | set(on_tcp))
    if accused and (other or fabric):
        yield Finding(
            "socket-beside-fabric",
            comm.id,
            tuple(accused),
            f"{_ranks(accused)} on TCP sockets, though InfiniBand, RoCE or another fabric is there.",
            (
                *(f"{link.source} -> {link.target} via {link.transport}" for link in slow[:_NAMED]),
                *([f"using network Socket: {_ranks(on_tcp)}"] if on_tcp else []),
                *([f"found or use a fabric: {_ranks(fabric)}"] if fabric else []),
            ),
        )


def _versions(comm: Communicator) -> Iterator[Finding]:
    of = Counter(rank.version for rank in comm.ranks if rank.version is not None)
    if len(of) > 1:
        usual = of.most_common(1)[0][0]
        odd = tuple(rank.rank for rank in comm.ranks if rank.version not in (None, usual))
        yield Finding(
            "differing-versions",
            comm.id,
            odd,
            f"Ranks of one communicator run {len(of)} versions of NCCL.",
            tuple(f"{version}: {count} ranks" for version, count in of.most_common(_NAMED)),
        )


def _unfinished(comm: Communicator) -> Iterator[Finding]:
    """Ranks that began where others came to the end: what they wait for, or died of, is before that."""
    waiting = [rank.rank for rank in comm.ranks if not rank.initialised]
    if waiting:
        yield Finding(
            "init-not-complete",
            comm.id,
            tuple(waiting),
            f"{_ranks(waiting)} without an end of initialisation: hanging, dead, or the log is cut there.",
            (f"{len(comm.ranks)} of {comm.size} ranks are in the logs",),
        )


def _ranks(ranks: Sequence[int]) -> str:
    named = ", ".join(map(str, ranks[:_NAMED]))
    more = f" and {len(ranks) - _NAMED} more" if len(ranks) > _NAMED else ""
    return f"rank{'s' if len(ranks) > 1 else ''} {named}{more}"
