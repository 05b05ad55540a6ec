"""Snapshots of the CUDA allocator (`torch.cuda.memory._dump_snapshot`): what holds the device, and where it was asked for.

A snapshot is the state at one moment, `segments` with their blocks, and, if history was recorded, what led there
(`device_traces`). They are read as plain values: no code in them runs. The peak is found by playing the history backwards
from the state: what was freed was there before. NCCL's and the driver's own memory is in none of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from rankscope.analyzers.errors import UnreadableTrace
from rankscope.analyzers.hang.pickles import plain

MOST_BLOCKS: Final = 5_000_000
MOST_DEVICES: Final = 256
MOST_SHOWN: Final = 20  # frames, segments
LARGEST: Final = 1 << 60  # bytes; beyond it a number is damage
ACTIVE: Final = ("active_allocated", "active_pending_free", "active_awaiting_free")
NO_HISTORY: Final = "no history: torch.cuda.memory._record_memory_history() was not on"
RETRIES: Final = "counted where segments were given back and one was taken at once; empty_cache() looks the same"
NO_FRAME: Final = "(no stack recorded)"
LIBRARY: Final = ("/torch/", "\\torch\\", "??")  # frames inside PyTorch do not say whose memory it is


@dataclass(frozen=True, slots=True)
class Held:
    """Memory by what it belongs to."""

    name: str
    bytes: int
    blocks: int


@dataclass(frozen=True, slots=True)
class SnapshotMemory:
    """One device of a snapshot. None: no history was recorded (see `reasons`)."""

    path: str
    device: int
    reserved_bytes: int
    allocated_bytes: int
    fragmentation_share: float | None  # (reserved - allocated) / reserved; None: nothing is reserved
    largest_free_bytes: int  # the largest hole: more than this in one piece needs a new segment
    segments: int
    expandable_segments: int
    by_state: list[Held]
    by_frame: list[Held]  # what is allocated now, by the user's innermost frame
    peak_bytes: int | None  # within the history
    peak_by_frame: list[Held] | None
    ooms: int | None
    segment_allocs: int | None
    retries: int | None
    reasons: dict[str, str]


def snapshot(path: str) -> list[SnapshotMemory]:
    """All devices of the file. UnreadableTrace where it is none."""
    content = plain(path)
    if not isinstance(content, Mapping) or not isinstance(content.get("segments"), list):
        raise UnreadableTrace(path, "is a pickle, but no snapshot of the CUDA allocator (no `segments`)")
    segments = [one for one in content["segments"] if isinstance(one, Mapping)]
    if sum(len(_listed(one.get("blocks"))) for one in segments) > MOST_BLOCKS:
        raise UnreadableTrace(path, f"is a snapshot of more than {MOST_BLOCKS:,} blocks")
    traces = _listed(content.get("device_traces"))
    devices = {_number(one.get("device")) for one in segments} | {i for i, events in enumerate(traces) if events}
    if len(devices) > MOST_DEVICES:
        raise UnreadableTrace(path, f"is a snapshot of more than {MOST_DEVICES} devices")
    return [
        _device(
            path, device, [one for one in segments if _number(one.get("device")) == device], _events(traces, device)
        )
        for device in sorted(devices)
    ]


def _device(
    path: str, device: int, segments: list[Mapping[Any, Any]], events: list[Mapping[Any, Any]]
) -> SnapshotMemory:
    blocks = [block for one in segments for block in _listed(one.get("blocks")) if isinstance(block, Mapping)]
    active = [block for block in blocks if block.get("state") in ACTIVE]
    reserved = sum(_number(one.get("total_size")) for one in segments)
    allocated = sum(map(_size, active))
    told = {"retries": RETRIES} if events else dict.fromkeys(("peak_bytes", "ooms", "retries"), NO_HISTORY)
    top = _peak(active, events) if events else None
    actions = Counter(str(event.get("action")) for event in events)
    return SnapshotMemory(
        path=path,
        device=device,
        reserved_bytes=reserved,
        allocated_bytes=allocated,
        fragmentation_share=max(0.0, (reserved - allocated) / reserved) if reserved else None,
        largest_free_bytes=max((_size(block) for block in blocks if block.get("state") == "inactive"), default=0),
        segments=len(segments),
        expandable_segments=sum(bool(one.get("is_expandable")) for one in segments),
        by_state=_grouped((str(block.get("state")), _size(block)) for block in blocks),
        by_frame=_grouped((_owner(block), _size(block)) for block in active),
        peak_bytes=top[0] if top else None,
        peak_by_frame=top[1] if top else None,
        ooms=actions["oom"] if events else None,
        segment_allocs=actions["segment_alloc"] + actions["segment_map"] if events else None,
        retries=_retries(events) if events else None,
        reasons=told,
    )


def _peak(active: list[Mapping[Any, Any]], events: list[Mapping[Any, Any]]) -> tuple[int, list[Held]]:
    """The most that was held within the history, and by whom: backwards from what is held at the end.

    A block is held from `alloc` to `free_completed`. Two passes: one finds the moment, one stops there.
    """
    now = most = sum(map(_size, active))
    at = len(events)  # the state before events[at] is the peak's
    for i in range(len(events) - 1, -1, -1):
        now += _change(events[i])
        if now > most:
            most, at = now, i
    there = {_number(block.get("address")): (_owner(block), _size(block)) for block in active}
    for event in reversed(events[at:]):
        address = _number(event.get("addr"))
        if event.get("action") == "alloc":
            there.pop(address, None)
        elif event.get("action") == "free_completed":
            there[address] = (_owner(event), _size(event))
    return most, _grouped(there.values())


def _change(event: Mapping[Any, Any]) -> int:
    """What undoing the event adds."""
    return {"alloc": -1, "free_completed": 1}.get(str(event.get("action")), 0) * _size(event)


def _retries(events: list[Mapping[Any, Any]]) -> int:
    """Times that segments were given back and one was taken right after: the allocator's own way out of a full device."""
    order = [str(event.get("action")) for event in events]
    kept = [word for word in order if word in ("segment_free", "segment_alloc", "alloc")]
    return sum(a == "segment_free" and b == "segment_alloc" for a, b in pairwise(kept))


def _owner(block: Mapping[Any, Any]) -> str:
    """The innermost frame that is not PyTorch's own; else the innermost."""
    frames = _listed(block.get("frames"))
    if not frames:  # older files
        history = _listed(block.get("history"))
        frames = _listed(history[0].get("frames")) if history and isinstance(history[0], Mapping) else []
    named = [frame for frame in frames if isinstance(frame, Mapping)]
    users = (frame for frame in named if not any(part in str(frame.get("filename")) for part in LIBRARY))
    chosen = next(users, named[0] if named else None)
    if chosen is None:
        return NO_FRAME
    return f"{chosen.get('name', '?')} ({chosen.get('filename', '?')}:{chosen.get('line', '?')})"


def _grouped(parts: Iterable[tuple[str, int]]) -> list[Held]:
    """The largest first; of equals by name."""
    held: Counter[str] = Counter()
    blocks: Counter[str] = Counter()
    for name, size in parts:
        held[name] += size
        blocks[name] += 1
    ordered = sorted(held, key=lambda name: (-held[name], name))
    return [Held(name, held[name], blocks[name]) for name in ordered[:MOST_SHOWN]]


def _events(traces: list[Any], device: int) -> list[Mapping[Any, Any]]:
    found = _listed(traces[device]) if 0 <= device < len(traces) else []
    return [event for event in found if isinstance(event, Mapping)]


def _size(of: Mapping[Any, Any]) -> int:
    return _number(of.get("size"))


def _number(value: object) -> int:
    return value if isinstance(value, int) and 0 <= value < LARGEST else 0


def _listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
