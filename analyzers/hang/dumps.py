"""Flight-recorder dumps of PyTorch, one a rank: what each rank has asked of its process groups, and what is done.

Formats: pickle and JSON, versions 2.4 to 2.10, NCCL and gloo (torch/csrc/distributed/c10d/FlightRecorder). A dump does not
say whose it is: the rank is the number at the end of its name, or that of the run directory's folder.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from rankscope.analyzers.errors import UnreadableTrace
from rankscope.analyzers.hang.pickles import plain

MOST_BYTES: Final = 512 << 20
MOST_OPERATIONS: Final = 1_000_000
MOST_FRAMES: Final = 12
MOST_RANKS: Final = 1_000_000
_PEER: Final = re.compile(r"(send|recv) (\d+)(?:->|<-)(\d+)")


@dataclass(frozen=True, slots=True)
class Group:
    """A process group; `ranks` empty: not known. `name` is PyTorch's own, `description` what it is for."""

    name: str
    description: str
    ranks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Operation:
    """A collective, or one side of a point-to-point transfer, as one rank asked for it. `seq` counts within the group."""

    group: str
    seq: int
    name: str  # without the backend: all_reduce, _allgather_base, "send 1->2"
    sizes: tuple[tuple[int, ...], ...]  # of the inputs
    dtypes: tuple[str, ...]
    done: bool
    created_ns: int
    record: int  # order on its rank
    frames: tuple[str, ...]  # where it was asked for, innermost first

    @property
    def peer(self) -> int | None:
        """The other side of a transfer, as a position in the group; None for a collective."""
        matched = _PEER.match(self.name)
        return int(matched[3]) if matched else None


@dataclass(frozen=True, slots=True)
class Dump:
    """What one rank's recorder held. `done` and `asked`: the last sequence number by group, where it says."""

    rank: int
    path: str
    version: str
    groups: dict[str, Group]
    operations: tuple[Operation, ...]  # oldest first
    asked: dict[str, int] = field(default_factory=dict)
    done: dict[str, int] = field(default_factory=dict)

    @property
    def pending(self) -> list[Operation]:
        """What was asked for and is not done, oldest first."""
        return [operation for operation in self.operations if not operation.done]


def read_dump(path: str, rank: int) -> Dump:
    """One rank's dump. UnreadableTrace, with a reason, for what is none."""
    content = _content(path)
    if not isinstance(content, dict) or "version" not in content or not ({"pg_config", "entries"} & content.keys()):
        raise UnreadableTrace(path, "is not a dump of PyTorch's flight recorder")
    entries = [entry for entry in _listed(content.get("entries")) if isinstance(entry, Mapping)]
    operations = sorted(_operations(entries), key=lambda operation: operation.record)
    groups = {str(key): _group(str(key), value) for key, value in _mapped(content.get("pg_config")).items()}
    names = {str(e.get("pg_id")): _pair(e.get("process_group"))[0] for e in entries}
    asked, done = _progress(_mapped(content.get("pg_status")), names)
    for operation in operations:
        if operation.peer is None:
            asked[operation.group] = max(asked.get(operation.group, 0), operation.seq)
            if operation.done:
                done[operation.group] = max(done.get(operation.group, 0), operation.seq)
    return Dump(rank, path, str(content["version"]), groups, tuple(operations), asked, done)


def _content(path: str) -> Any:  # noqa: ANN401 - what the file holds
    if os.path.getsize(path) > MOST_BYTES:
        raise UnreadableTrace(path, f"is a dump of more than {MOST_BYTES >> 20} MiB")
    with open(path, "rb") as file:
        first = file.read(1)
        if first == b"\x80":
            return plain(path)
        raw = first + file.read(MOST_BYTES)
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        raise UnreadableTrace(path, "is neither a pickle nor JSON" if raw else "is empty") from None


def _operations(entries: Iterable[Mapping[Any, Any]]) -> Iterator[Operation]:
    for entry in entries:
        if not isinstance(entry.get("profiling_name"), str):
            continue
        transfer = bool(entry.get("is_p2p"))
        yield Operation(
            group=_pair(entry.get("process_group"))[0],
            seq=_number(entry.get("p2p_seq_id" if transfer else "collective_seq_id")),
            name=entry["profiling_name"].partition(":")[2] or entry["profiling_name"],
            sizes=tuple(tuple(map(_number, _listed(size))) for size in _listed(entry.get("input_sizes"))),
            dtypes=tuple(map(str, _listed(entry.get("input_dtypes")))),
            # gloo's state stays "scheduled"; a retired operation that was not timed out is done
            done=entry.get("state") == "completed" or bool(entry.get("retired")),
            created_ns=_number(entry.get("time_created_ns")),
            record=_number(entry.get("record_id")),
            frames=tuple(_frame(frame) for frame in _listed(entry.get("frames"))[:MOST_FRAMES]),
        )


def _group(key: str, value: object) -> Group:
    said = _mapped(value)
    ranks = said.get("ranks")
    try:
        found = json.loads(ranks) if isinstance(ranks, str) else ranks
    except (ValueError, RecursionError):
        found = None
    members = tuple(rank for rank in _listed(found)[:MOST_RANKS] if isinstance(rank, int))
    return Group(str(said.get("name", key)), str(said.get("desc", "")), members)


def _progress(status: Mapping[Any, Any], names: Mapping[str, str]) -> tuple[dict[str, int], dict[str, int]]:
    """The last sequence number asked for and done by group name; ids that no entry explains are left out."""
    asked: dict[str, int] = {}
    done: dict[str, int] = {}
    for key, value in status.items():
        name = names.get(str(key))
        if name is None:
            continue
        for into, word in ((asked, "last_enqueued_collective"), (done, "last_completed_collective")):
            reached = _number(_mapped(value).get(word), -1)
            if reached >= 0:  # -1: none, or not timed
                into[name] = reached
    return asked, done


def _pair(value: object) -> tuple[str, str]:
    found = _listed(value)
    return (str(found[0]), str(found[1])) if len(found) == 2 else ("", "")


def _frame(value: object) -> str:
    said = _mapped(value)
    return f"{said.get('name', '?')} ({said.get('filename', '?')}:{said.get('line', '?')})"


def _number(value: object, otherwise: int = 0) -> int:
    try:
        return int(value)  # type: ignore[call-overload, no-any-return]
    except (TypeError, ValueError, OverflowError):
        return otherwise


def _listed(value: object) -> list[Any]:
    return list(value)[:MOST_OPERATIONS] if isinstance(value, list | tuple) else []


def _mapped(value: object) -> Mapping[Any, Any]:
    return value if isinstance(value, Mapping) else {}
