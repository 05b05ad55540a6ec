"""Damaged rank files: a number gives one file, the same on every machine."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any

from contract import device_cases, run_cases
from contract.layout import text
from fuzz import strange

from rankscope.simulator import Scenario, simulate


@dataclass(frozen=True)
class Damaged:
    """One file, and whether part of what was in it is certainly gone or unreadable."""

    how: str
    content: bytes
    name: str
    spoilt: bool = False


@cache
def wholes() -> Sequence[bytes]:
    """Undamaged files: a simulated rank, one that reduces gradients, one on the CPU, one with odd copies."""
    simulated = simulate(Scenario(ranks=2, steps=3, layers=1, layers_per_bucket=1)).traces[0].text()
    builds = (run_cases.gloo_on_cpu, run_cases.one_late_rank, run_cases.send_receive, device_cases.copies)
    return [simulated.encode(), *(text(build()[0][0]).encode() for build in builds)]


@cache
def neighbour() -> bytes:
    """The undamaged other rank of the simulated run."""
    return simulate(Scenario(ranks=2, steps=3, layers=1, layers_per_bucket=1)).traces[1].text().encode()


def damaged(number: int) -> Damaged:
    """The file of this number; the first ones are the strange files, one each."""
    if number < len(strange.FILES):
        return Damaged(f"strange file {number}", strange.FILES[number](), "rank-0.json")
    chance = Random(number)
    whole = chance.choice(wholes()) if chance.random() < 0.6 else wholes()[0]
    if chance.random() < 0.5:
        tree = json.loads(whole)
        hows = []
        for _ in range(chance.choice((1, 1, 2, 5, 20))):
            change = chance.choice(_CHANGES)
            change(tree, chance)
            hows.append(change.__name__.strip("_"))
        content, how, spoilt = strange.dumped(tree), "+".join(hows), False
    else:
        change_bytes = chance.choice(_BYTES)
        content, how = change_bytes(whole, chance), change_bytes.__name__.strip("_")
        spoilt = change_bytes is _truncated
    if chance.random() < 0.2:
        return _packed(content, how, spoilt, chance)
    return Damaged(how, content, "rank-0.json", spoilt)


def _packed(content: bytes, how: str, spoilt: bool, chance: Random) -> Damaged:
    packed = gzip.compress(content, 1)
    kind = chance.choice(("whole", "cut", "flipped", "tail"))
    if kind == "cut":
        packed, spoilt = packed[: chance.randrange(20, len(packed) - 8)], True
    elif kind == "flipped":
        packed = _flipped(packed, chance)
    elif kind == "tail":
        packed += chance.randbytes(chance.randrange(1, 5000))
    return Damaged(f"{how}, gzip {kind}", packed, "rank-0.json.gz", spoilt)


# Bytes


def _truncated(whole: bytes, chance: Random) -> bytes:
    return whole[: chance.randrange(len(whole) - 60)]


def _flipped(whole: bytes, chance: Random) -> bytes:
    content = bytearray(whole)
    for _ in range(chance.choice((1, 2, 10, 200))):
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    return bytes(content)


def _overwritten(whole: bytes, chance: Random) -> bytes:
    at, length = chance.randrange(len(whole)), chance.choice((1, 10, 1000))
    filling = chance.choice((b"\0", b"\xff", b'"', b"\\", b"}", b"]", b"9", b" "))
    return whole[:at] + filling * length + whole[at + length :]


def _spliced(whole: bytes, chance: Random) -> bytes:
    other = chance.choice(wholes())
    return whole[: chance.randrange(len(whole))] + other[chance.randrange(len(other)) :]


def _interleaved(whole: bytes, chance: Random) -> bytes:
    """Two writers of one path, a buffer at a time."""
    buffer, other = chance.choice((512, 4096)), neighbour()
    pieces = [(whole if chance.random() < 0.5 else other)[at : at + buffer] for at in range(0, len(whole), buffer)]
    return b"".join(pieces)


def _chunks_moved(whole: bytes, chance: Random) -> bytes:
    cuts = sorted(chance.sample(range(len(whole)), chance.choice((2, 5, 30))))
    chunks = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    kind = chance.choice(("deleted", "doubled", "shuffled"))
    if kind == "deleted":
        del chunks[chance.randrange(len(chunks))]
    elif kind == "doubled":
        chunks.insert(chance.randrange(len(chunks)), chance.choice(chunks))
    else:
        chance.shuffle(chunks)
    return b"".join(chunks)


def _tokens(whole: bytes, chance: Random) -> bytes:
    old = chance.choice((b'"', b"{", b"}", b",", b":", b'"X"', b'"ts"', b'"dur"', b'"args"', b"e", b"0", b"]"))
    new = chance.choice(
        (
            b"",
            b"NaN",
            b"-Infinity",
            b"1e400",
            b"\\u",
            b"\\",
            b'"',
            b"\\ud800",
            b"-",
            b"0" * 400,
            b"[",
            b"//",
            b"'",
            b"\n",
        )
    )
    parts = whole.split(old)
    at = chance.randrange(1, len(parts)) if len(parts) > 1 else 0
    most = chance.choice((1, 1, 3, 50))
    return old.join(parts[:at]) + b"".join(new + part for part in parts[at : at + most]) + old.join(parts[at + most :])


# Fields of events and of the file


def _some(tree: Any, chance: Random) -> list[dict[str, Any]]:
    events = tree.get("traceEvents")
    if not isinstance(events, list) or not events:
        return []
    few = chance.sample(events, min(len(events), chance.choice((1, 1, 5, len(events)))))
    return [event for event in few if isinstance(event, dict)]


def _field(tree: Any, chance: Random) -> None:
    field, value = chance.choice(strange.FIELDS), strange.value(chance)
    for event in _some(tree, chance):
        event[field] = value


def _argument(tree: Any, chance: Random) -> None:
    field, value = chance.choice(strange.ARGUMENTS), strange.value(chance)
    for event in _some(tree, chance):
        if isinstance(args := event.get("args"), dict):
            args[field] = value


def _several_values(tree: Any, chance: Random) -> None:
    for event in _some(tree, chance):
        event[chance.choice(strange.FIELDS)] = strange.value(chance)
        if isinstance(args := event.get("args"), dict):
            args[chance.choice(strange.ARGUMENTS)] = strange.value(chance)


def _time(tree: Any, chance: Random) -> None:
    kind = chance.choice((0, -1, "shift", "shrink", "grow", "equal"))
    amount = chance.choice((1, 1000, 10**6, 3_600_000_000, 10**12))
    for event in _some(tree, chance):
        ts, dur = event.get("ts"), event.get("dur")
        if not isinstance(ts, int | float) or not isinstance(dur, int | float):
            continue
        if kind == "shift":
            event["ts"] = ts + chance.randrange(-amount, amount)
        elif kind == "equal":
            event["ts"], event["dur"] = 864000011077.144, 1.0
        elif isinstance(kind, int):
            event[chance.choice(("ts", "dur"))] = kind * amount
        else:
            event["dur"] = dur * amount if kind == "grow" else dur / amount


def _word(tree: Any, chance: Random) -> None:
    field = chance.choice(("name", "cat", "ph"))
    words: Sequence[Any] = {"name": strange.NAMES, "cat": strange.CATEGORIES, "ph": strange.PHASES}[field]
    word = chance.choice(words)
    for event in _some(tree, chance):
        event[field] = word


def _group_ranks(tree: Any, chance: Random) -> None:
    listed = strange.ranks(chance)
    events = [e for e in _some(tree, chance) if isinstance(e.get("args"), dict)][:20]
    for event in events:
        event["args"]["Process Group Ranks"] = listed
    about = tree.get("distributedInfo")
    if isinstance(about, dict) and chance.random() < 0.3:
        about["pg_config"] = chance.choice(([{"pg_name": "0", "ranks": listed}], {"0": {"ranks": listed}}, listed))


def _top(tree: Any, chance: Random) -> None:
    tree[chance.choice(strange.TOP)] = strange.value(chance)


def _distributed(tree: Any, chance: Random) -> None:
    if isinstance(about := tree.get("distributedInfo"), dict):
        about[chance.choice(strange.DISTRIBUTED)] = strange.value(chance)


def _removed(tree: Any, chance: Random) -> None:
    kind, field = chance.choice(("field", "events", "top")), chance.choice((*strange.FIELDS, *strange.ARGUMENTS))
    if kind == "top":
        tree.pop(chance.choice(strange.TOP), None)
    elif kind == "field":
        for event in _some(tree, chance):
            event.pop(field, None)
            event["args"].pop(field, None) if isinstance(event.get("args"), dict) else None
    elif isinstance(tree.get("traceEvents"), list):
        share = chance.choice((0.02, 0.5, 0.98))
        tree["traceEvents"] = [event for event in tree["traceEvents"] if chance.random() > share]


def _order(tree: Any, chance: Random) -> None:
    if isinstance(events := tree.get("traceEvents"), list):
        again = list(events)
        chance.shuffle(again)
        kind = chance.choice(("shuffled", "reversed", "doubled", "doubled at random"))
        tree["traceEvents"] = {
            "shuffled": again, "reversed": events[::-1], "doubled": [*events, *events],
            "doubled at random": [*events, *again[: len(again) // 2]],
        }[kind]  # fmt: skip


def _devices(tree: Any, chance: Random) -> None:
    device = chance.choice((1, 7, 10**6, -1))
    for event in _some(tree, chance):
        if isinstance(args := event.get("args"), dict) and "device" in args:
            args["device"] = event["pid"] = device


def _steps(tree: Any, chance: Random) -> None:
    events = tree.get("traceEvents")
    if not isinstance(events, list):
        return
    for event in events:
        if isinstance(event, dict) and str(event.get("name")).startswith("ProfilerStep#"):
            event["name"] = f"ProfilerStep#{chance.choice((0, 1, 2, 3, 10**9, 10**18, 10**19, -1, 'x', ''))}"
            if isinstance(event.get("ts"), int | float) and chance.random() < 0.5:
                event["ts"] += chance.randrange(-10_000, 10_000)


_BYTES: tuple[Callable[[bytes, Random], bytes], ...] = (
    _truncated, _flipped, _flipped, _overwritten, _spliced, _interleaved, _chunks_moved, _tokens, _tokens,
)  # fmt: skip
_CHANGES: tuple[Callable[[Any, Random], None], ...] = (
    _field, _argument, _argument, _several_values, _time, _time, _word, _group_ranks, _top, _distributed, _removed, _order,
    _devices, _steps,
)  # fmt: skip


def checksum(numbers: Sequence[int]) -> int:
    """Of the files of these numbers: equal where the same files are made."""
    found = 0
    for number in numbers:
        found = zlib.crc32(damaged(number).content, found)
    return found
