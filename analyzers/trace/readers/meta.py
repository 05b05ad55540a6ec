"""What a file says of itself: the keys beside `traceEvents`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rankscope.analyzers.trace.model import DeviceLimits, ProcessGroup
from rankscope.analyzers.trace.readers.forgiving import integer

FLAGS = ("record_shapes", "with_stack", "profile_memory", "with_flops", "with_modules")
Keys = Mapping[str, Any]


def said(keys: Keys) -> dict[str, Any]:
    """The fields of TraceMeta that the file's own keys give."""
    run = distributed(keys)
    return {
        "rank": integer(run.get("rank")),
        "world_size": integer(run.get("world_size")),
        "backend": _word(run.get("backend")),
        "host": _word(keys.get("host_name")),
        "base_ns": integer(keys.get("baseTimeNanoseconds")) or 0,
        "trace_id": _word(keys.get("group_trace_id")) or _word(keys.get("trace_id")),
        "devices": tuple(_devices(keys.get("deviceProperties"))),
        "limits": tuple(_limits(keys.get("deviceProperties"))),
        "groups": tuple(_groups(run.get("pg_config"))),
        "flags": {flag: value for flag in FLAGS if (value := integer(keys.get(flag))) is not None},
    }


def distributed(keys: Keys) -> dict[str, Any]:
    """`distributedInfo`, empty where there is none."""
    found = keys.get("distributedInfo")
    return found if isinstance(found, dict) else {}


def _word(value: object) -> str | None:
    return _text(value) if isinstance(value, str) and value else None


def _text(value: object) -> str:
    """As text that can be stored: JSON can escape halves of characters that no encoding has."""
    return str(value).encode("utf-8", "backslashreplace").decode()


def _devices(listed: object) -> list[tuple[int, str]]:
    entries = [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
    numbered = [(integer(entry.get("id")), _word(entry.get("name")) or "") for entry in entries]
    return [(number, name) for number, name in numbered if number is not None]


def _limits(listed: object) -> list[DeviceLimits]:
    entries = [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
    found = []
    for entry in entries:
        number, memory = integer(entry.get("id")), integer(entry.get("totalGlobalMem"))
        major, minor = integer(entry.get("computeMajor")), integer(entry.get("computeMinor"))
        capability = None if major is None else 10 * major + (minor or 0)
        if number is not None:
            found.append(DeviceLimits(number, memory, capability))
    return found


def _groups(listed: object) -> list[ProcessGroup]:
    if isinstance(listed, dict):  # torch 2.3 wrote one object keyed by name
        listed = [{"pg_name": name, **entry} for name, entry in listed.items() if isinstance(entry, dict)]
    entries = [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
    return [
        ProcessGroup(
            name=_text(entry.get("pg_name", "")),
            description=_text(entry.get("pg_desc", "")),
            backend=_text(entry.get("backend_config", "")),
            ranks=_ranks(entry.get("ranks")),
        )
        for entry in entries
    ]


def _ranks(listed: object) -> tuple[int, ...] | None:
    if not isinstance(listed, list):
        return None
    ranks = tuple(rank for rank in map(integer, listed) if rank is not None)
    return ranks if len(ranks) == len(listed) else None
