"""Which device work of different ranks was one collective."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping

from rankscope.simulator.splicing.recorded import RankFile, RecordedRun

MOST_MISSING = 3  # collectives that one rank can lack at the front
KINDS = re.compile(r"all_?reduce|all_?gather|reduce_?scatter|send_?recv|broadcast|reduce", re.IGNORECASE)

Member = tuple[int, int]  # rank, event


def meetings(run: RecordedRun) -> list[list[Member]]:
    """The collectives that were seen by two ranks or more, in order."""
    kinds: dict[str, dict[int, list[int]]] = defaultdict(dict)
    for rank, file in run.ranks.items():
        launched = sorted(file.launches, key=lambda i: (file.times[file.launches[i]].begin_ns, i))
        for i in launched:
            if file.is_collective(i):
                kinds[kind(file.name(i))].setdefault(rank, []).append(i)
    return [met for by_rank in kinds.values() for met in _pair(run, by_rank)]


def kind(name: str) -> str:
    """`allreduce` for all of NCCL's and gloo's names of it."""
    found = KINDS.search(name)
    return found[0].lower().replace("_", "") if found else name


def _pair(run: RecordedRun, by_rank: Mapping[int, list[int]]) -> list[list[Member]]:
    """Pair by order from the front; ranks that saw fewer start later, by the shift that brings ends closest."""
    most = max(by_rank.items(), key=lambda item: len(item[1]))
    reference_file, reference = run.ranks[most[0]], most[1]
    slots: list[list[Member]] = [[] for _ in reference]
    for rank, events in by_rank.items():
        spare = len(reference) - len(events)
        shifts = range(min(spare, MOST_MISSING) + 1)
        shift = min(shifts, key=lambda s: _spread(reference_file, reference[s:], run.ranks[rank], events))
        for place, event in enumerate(events):
            slots[place + shift].append((rank, event))
    return [slot for slot in slots if len(slot) > 1]


def _spread(left: RankFile, lefts: list[int], right: RankFile, rights: list[int]) -> int:
    pairs = zip(lefts, rights, strict=False)
    return sum(abs(left.times[a].end_ns - right.times[b].end_ns) for a, b in pairs)
