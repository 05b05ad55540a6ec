"""NCCL_DEBUG logs: which ranks on which hosts, how many channels, over which transports, in which rings and trees.

Several processes may write into one file, so that lines are cut and interleaved: a message is looked for anywhere in a
line, and what stood before it counts the line as interleaved. A message belongs to the communicator that its thread
initialised; one of another thread (connections are made later, by others) to the latest of its process and device.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from rankscope.analyzers.nccl.messages import Message, messages

_INIT: Final = re.compile(
    r"\bcomm (0x[0-9a-f]{1,16}) rank (\d{1,7}) nranks (\d{1,7}) cudaDev (\d{1,4})(.{0,200}) - Init (START|COMPLETE)"
)
_ID: Final = re.compile(r"\bcommId (0x[0-9a-f]{1,16})")
_CHANNELS: Final = re.compile(r"^(\d{1,4}) coll channels,.{0,80}?(\d{1,4}) p2p channels")
_VERSION: Final = re.compile(r"NCCL version (\d[\w.+-]{0,40})")
_VIA: Final = re.compile(
    r"^Channel (\d{1,4})/\d{1,4} ?: (\d{1,7})\[\w{1,8}\] -> (\d{1,7})\[\w{1,8}\] "
    r"(?:\[(?:send|receive)\] )?via (\S.{0,80})"
)
_RING: Final = re.compile(r"^Channel (\d{1,4})/\d{1,4} ?: ([\d ]+)$")
_TREE: Final = re.compile(r"\[(\d{1,4})\] (-?\d+)/(-?\d+)/(-?\d+)->(-?\d+)->(-?\d+)")
_PATTERN: Final = re.compile(r"^ ?Pattern \d+, .{0,80}type (\w+)/(\w+)")
_MOST: Final = 2_000_000  # things kept of one file; a thousand ranks with 32 channels need a tenth
_CHANNELS_MOST: Final = 1024


@dataclass(frozen=True, slots=True)
class RankLog:
    """What one rank of one communicator said; None: it did not say."""

    rank: int
    host: str
    pid: int
    device: int
    initialised: bool
    coll_channels: int | None
    p2p_channels: int | None
    version: str | None
    paths_within: str | None  # class of the path between the host's GPUs in NCCL's own graph search: NVL, PIX, SYS
    network: str | None  # the word after "Using network"
    fabric: bool  # whether it found InfiniBand or RoCE devices


@dataclass(frozen=True, slots=True)
class Connection:
    """The transport from one rank to another, as printed without numbers, and over how many channels."""

    source: int
    target: int
    transport: str
    channels: int


@dataclass(frozen=True, slots=True)
class Communicator:
    """Ranks that communicate. `id` is the same on all of them; of old versions it is missing, and each rank is apart."""

    id: str
    size: int
    ranks: tuple[RankLog, ...]
    connections: tuple[Connection, ...]
    rings: dict[int, tuple[int, ...]]  # order of ranks by channel
    trees: dict[int, tuple[tuple[int, int], ...]]  # (rank, parent) by channel; the root has -1


@dataclass(frozen=True, slots=True)
class DebugLog:
    """All of one log."""

    communicators: tuple[Communicator, ...]
    versions: tuple[str, ...]  # also those that no process could be told for
    warnings: tuple[str, ...]
    messages: int
    interleaved_lines: int
    unplaced_messages: int  # of no known communicator though they belong to one, as where the log's begin is lost
    left_out_messages: int  # after more was kept than any real log holds


@dataclass(slots=True)
class _Rank:
    rank: int
    host: str
    pid: int
    device: int
    initialised: bool = False
    coll_channels: int | None = None
    p2p_channels: int | None = None
    paths_within: str | None = None


@dataclass(slots=True)
class _Comm:
    id: str
    size: int
    ranks: dict[int, _Rank] = field(default_factory=dict)
    connections: dict[tuple[int, int, str], set[int]] = field(default_factory=dict)
    rings: dict[int, tuple[int, ...]] = field(default_factory=dict)
    trees: dict[int, dict[int, int]] = field(default_factory=dict)


def read(lines: Iterable[str]) -> DebugLog:
    """A log from its lines."""
    reading = _Reading()
    for line in lines:
        reading.take(line)
    return reading.result()


def transport(via: str) -> str:
    """`NET/IB/8/GDRDMA` without the number of the device, which only tells channels apart."""
    parts = [re.sub(r"\(\d+\)", "", part).strip() for part in via.split("/")]
    return "/".join(part for part in parts if part and not part.isdigit())


class _Reading:
    def __init__(self) -> None:
        self.comms: dict[str, _Comm] = {}
        self.threads: dict[tuple[str, int, int], tuple[_Comm, _Rank]] = {}
        self.devices: dict[tuple[str, int, int], tuple[_Comm, _Rank]] = {}
        self.versions: dict[tuple[str, int] | None, str] = {}
        self.networks: dict[tuple[str, int], str] = {}
        self.fabrics: set[tuple[str, int]] = set()
        self.warnings: list[str] = []
        self.counts: Counter[str] = Counter()

    def take(self, line: str) -> None:
        found = messages(line)
        if not found and (version := _VERSION.search(line)):
            self.versions.setdefault(None, version[1])
        self.counts["interleaved"] += bool(found) and not all(message.whole_line for message in found)
        for message in found:
            self.counts["messages"] += 1
            if self.counts["kept"] >= _MOST:
                self.counts["left_out"] += 1
            elif message.level == "WARN":
                self.counts["kept"] += 1
                self.warnings.append(f"{message.host}:{message.pid} {message.text[:300]}")
            elif message.level == "INFO" and not self._of_process(message):
                self._of_communicator(message)

    def _of_process(self, message: Message) -> bool:
        """Take what concerns a whole process, or begins a communicator; whether it was that."""
        process, text = (message.host, message.pid), message.text
        if started := _INIT.search(text):
            self._init(message, started)
        elif text.startswith("NCCL version ") and (version := _VERSION.search(text)):
            self.versions[process] = version[1]
        elif text.startswith("Using network "):
            self.networks[process] = text[14:80].strip()
        elif text.startswith("NET/IB : Using ["):
            self.fabrics.add(process)
        else:
            return False
        self.counts["kept"] += 1
        return True

    def _init(self, message: Message, started: re.Match[str]) -> None:
        host, pid = message.host, message.pid
        named = _ID.search(started[5])
        identity = named[1] if named else f"{started[1]} of {host}:{pid}"
        comm = self.comms.setdefault(identity, _Comm(identity, int(started[3])))
        rank = comm.ranks.setdefault(int(started[2]), _Rank(int(started[2]), host, pid, int(started[4])))
        rank.initialised |= started[6] == "COMPLETE"
        self.threads[host, pid, message.tid] = self.devices[host, pid, rank.device] = comm, rank

    def _of_communicator(self, message: Message) -> None:
        text = message.text
        pieces = _RING.match(text), _VIA.match(text), _CHANNELS.match(text), _PATTERN.match(text)
        if not any(pieces) and not text.startswith("Trees ["):
            return
        ring, via, channels, pattern = pieces
        process = (message.host, message.pid)
        place = self.threads.get((*process, message.tid)) or self.devices.get((*process, message.device or 0))
        if place is None:
            self.counts["unplaced"] += 1
            return
        comm, rank = place
        self.counts["kept"] += 1
        if channels:
            rank.coll_channels, rank.p2p_channels = int(channels[1]), int(channels[2])
        elif pattern:
            rank.paths_within = rank.paths_within or pattern[1]
        elif via:
            pair = (int(via[2]), int(via[3]), transport(via[4]))
            comm.connections.setdefault(pair, set()).add(int(via[1]))
        elif ring:
            self._ring(comm, int(ring[1]), ring[2].split())
        else:
            self._tree(comm, text)

    def _ring(self, comm: _Comm, channel: int, ranks: list[str]) -> None:
        if channel < _CHANNELS_MOST:
            self.counts["kept"] += len(ranks)
            comm.rings[channel] = tuple(int(rank[:7]) for rank in ranks)

    def _tree(self, comm: _Comm, text: str) -> None:
        for channel, *_, me, parent in _TREE.findall(text):
            if int(channel) < _CHANNELS_MOST:
                self.counts["kept"] += 1
                comm.trees.setdefault(int(channel), {})[int(me[:8])] = int(parent[:8])

    def result(self) -> DebugLog:
        return DebugLog(
            tuple(self._finished(comm) for comm in self.comms.values()),
            tuple(sorted(set(self.versions.values()))),
            tuple(self.warnings),
            self.counts["messages"],
            self.counts["interleaved"],
            self.counts["unplaced"],
            self.counts["left_out"],
        )

    def _finished(self, comm: _Comm) -> Communicator:
        connections = (Connection(*pair, len(channels)) for pair, channels in sorted(comm.connections.items()))
        trees = {channel: tuple(sorted(tree.items())) for channel, tree in sorted(comm.trees.items())}
        ranks = tuple(self._rank(comm.ranks[rank]) for rank in sorted(comm.ranks))
        return Communicator(comm.id, comm.size, ranks, tuple(connections), dict(sorted(comm.rings.items())), trees)

    def _rank(self, rank: _Rank) -> RankLog:
        process = (rank.host, rank.pid)
        return RankLog(
            rank.rank,
            rank.host,
            rank.pid,
            rank.device,
            rank.initialised,
            rank.coll_channels,
            rank.p2p_channels,
            self.versions.get(process),
            rank.paths_within,
            self.networks.get(process),
            process in self.fabrics,
        )


def merged(logs: Iterable[DebugLog]) -> Iterator[Communicator]:
    """Communicators of several logs, one a process: those of one id are one."""
    together: dict[str, list[Communicator]] = {}
    for log in logs:
        for comm in log.communicators:
            together.setdefault(comm.id, []).append(comm)
    for parts in together.values():
        ranks = {rank.rank: rank for part in parts for rank in part.ranks}
        connections = {(c.source, c.target, c.transport): c for part in parts for c in part.connections}
        trees: dict[int, set[tuple[int, int]]] = {}
        for part in parts:
            for channel, tree in part.trees.items():
                trees.setdefault(channel, set()).update(tree)
        yield Communicator(
            parts[0].id,
            max(part.size for part in parts),
            tuple(ranks[rank] for rank in sorted(ranks)),
            tuple(connections[key] for key in sorted(connections)),
            {channel: ring for part in parts for channel, ring in part.rings.items()},
            {channel: tuple(sorted(tree)) for channel, tree in sorted(trees.items())},
        )
