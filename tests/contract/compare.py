"""Compares a report with what a case expects.

Only the keys expected count, and they must be equal, times and bytes as integers. Entries of lists are found by the
keys in IDENTITY. In the maps by rank a rank left out counts as 0. `warnings: n` asks for at least n warnings.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

IDENTITY = {
    "attribution": ("rank", "device", "step"),
    "by_group": ("ranks", "bytes"),
    "clock": ("rank",),
    "files": ("rank",),
    "kernels": ("name",),
}
BY_RANK = {"waited_ns", "caused_ns", "alone_ns", "hidden_wait_ns", "last_arrivals"}


def differences(got: Any, want: Any, path: str = "report", key: str = "report") -> Iterator[str]:
    """A sentence for each difference."""
    if key == "warnings":
        if not isinstance(got, list) or len(got) < want:
            yield f"{path}: expected at least {want}, the report has {got!r}"
    elif key in IDENTITY:
        yield from _entries(got, want, path, key)
    elif isinstance(want, dict):
        yield from _object(got, want, path, key)
    elif not _same(key, got, want):
        apart = f" ({got - want:+})" if type(got) in (int, float) and type(want) is int else ""
        yield f"{path}: expected {want!r}, the report has {got!r}{apart}"


def _entries(got: Any, want: list[dict[str, Any]], path: str, key: str) -> Iterator[str]:
    for entry in want:
        names = [name for name in IDENTITY[key] if name in entry]
        label = f"{path}[{', '.join(f'{name}={entry[name]!r}' for name in names)}]"
        found = [row for row in got or [] if all(row.get(name) == entry[name] for name in names)]
        if len(found) == 1:
            yield from differences(found[0], entry, label, "")
        else:
            yield f"{label}: expected one entry, the report has {len(found)}"


def _object(got: Any, want: dict[str, Any], path: str, key: str) -> Iterator[str]:
    if not isinstance(got, dict):
        yield f"{path}: expected an object, the report has {got!r}"
        return
    for name, value in want.items():
        if name not in got and key not in BY_RANK:
            yield f"{path}.{name}: expected {value!r}, the report lacks it"
        else:
            yield from differences(got.get(name, 0), value, f"{path}.{name}", key if key in BY_RANK else name)


def _same(key: str, got: Any, want: Any) -> bool:
    """Equal in value and type; a rate may be a float."""
    if key.endswith("_per_s"):
        return type(got) in (int, float) and round(got) == want
    return type(got) is type(want) and bool(got == want)
