"""A row of the report as a case expects it."""

from __future__ import annotations

from typing import Any

from contract.writer import Rank

BUCKETS = {
    "compute": ("kernel_ns", "device_copy_ns"),
    "communication": ("wait_ns", "transfer_ns", "unsplit_ns"),
    "io": ("data_loading_ns", "checkpoint_ns", "host_to_device_ns", "device_to_host_ns"),
    "host": ("launch_ns", "sync_ns", "allocator_ns", "gc_ns", "other_ns"),
    "idle": ("kernel_gap_ns", "unexplained_ns"),
}


def row(
    rank: Rank,
    step: int | str | None,
    window: int,
    hidden_communication: int | None = None,
    host_late: int | None = None,
    hidden_io: int | None = None,
    **parts: int,
) -> dict[str, Any]:
    """A row of `attribution`. The parts named must fill the window, so every part not named is 0.

    Overlays count only where named.
    """
    assert sum(parts.values()) == window, (rank.rank, step, window, sum(parts.values()))
    out: dict[str, Any] = {"rank": rank.rank, "device": rank.device, "step": step, "window_ns": window}
    for bucket, names in BUCKETS.items():
        out[f"{bucket}_ns"] = sum(parts.get(name, 0) for name in names)
        out[bucket] = {name: parts.pop(name) for name in names if name in parts}
    assert not parts, parts
    overlays = (
        (hidden_communication, "communication", "overlapped_ns"),
        (host_late, "communication", "host_late_ns"),
        (hidden_io, "io", "overlapped_ns"),
    )
    for value, bucket, name in overlays:
        if value is not None:
            out[bucket][name] = value
    return {key: value for key, value in out.items() if value != {}}
