"""All dumps of a job together: groups and their members, and how far each rank is in each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence

from rankscope.analyzers.hang.dumps import Dump, Group, Operation


class Ranks:
    """All dumps together."""

    def __init__(self, dumps: Sequence[Dump], world_size: int | None) -> None:
        self.dumps = {dump.rank: dump for dump in dumps if dump.operations or dump.asked}
        self.empty = {dump.rank: dump for dump in dumps if dump.rank not in self.dumps}
        self.groups = _groups(dumps, range(world_size or 0))
        self._group_of = {(name, rank): group for (name, _), group in self.groups.items() for rank in group.ranks}
        self._operations: dict[tuple[int, str], list[Operation]] = defaultdict(list)
        for dump in dumps:
            for operation in dump.operations:
                self._operations[dump.rank, operation.group].append(operation)
        everyone = set(range(world_size or 0)) | {dump.rank for dump in dumps}
        self.everyone = everyone.union(*(group.ranks for group in self.groups.values()))
        self.silent = self.everyone - self.dumps.keys()

    def members(self, rank: int, group: str) -> tuple[int, ...]:
        """The ranks of the group that this rank calls so."""
        return self._group_of[group, rank].ranks

    def title(self, rank: int, group: str) -> str:
        """The group in words."""
        found = self._group_of[group, rank]
        return f"{found.description or 'group'} {found.name}".strip()

    def asked(self, rank: int, group: str) -> int:
        """The last number this rank has asked for in the group; -1 where it has no record."""
        return self.dumps[rank].asked.get(group, -1) if rank in self.dumps else -1

    def done(self, rank: int, group: str) -> int:
        """The last number of the group that is done on this rank."""
        return self.dumps[rank].done.get(group, -1) if rank in self.dumps else -1

    def operations(self, rank: int, group: str) -> Sequence[Operation]:
        """What this rank has asked of the group, oldest first; transfers too."""
        return self._operations.get((rank, group), ())

    def last_common(self, rank: int, group: str, before: int | None = None) -> str | None:
        """The last operation of the group, as `rank` calls it, that every member with a record has done."""
        members = [member for member in self.members(rank, group) if member in self.dumps]
        last = min((self.done(member, group) for member in members), default=-1)
        last = last if before is None else min(last, before - 1)
        if last < 0:
            return None
        recorded = (o for member in members for o in self.operations(member, group))
        named = next((o.name for o in recorded if o.seq == last and o.peer is None), "operation")
        return f"{named} number {last}"


def _groups(dumps: Sequence[Dump], world: Collection[int]) -> dict[tuple[str, tuple[int, ...]], Group]:
    """Groups by name and members. One that no dump lists the members of has the ranks that use it.

    PyTorch calls the group of all ranks "0".
    """
    found: dict[tuple[str, tuple[int, ...]], Group] = {}
    users: dict[str, set[int]] = defaultdict(set)
    for dump in dumps:
        for name, group in dump.groups.items():
            if group.ranks:
                found.setdefault((name, group.ranks), group)
    known = {(name, rank) for name, ranks in found for rank in ranks}
    for dump in dumps:
        for name in {operation.group for operation in dump.operations}:
            if (name, dump.rank) not in known:
                users[name].add(dump.rank)
    for name, ranks in users.items():
        members = tuple(sorted(ranks.union(world) if name == "0" else ranks))
        found[(name, members)] = Group(name, "", members)
    return found
