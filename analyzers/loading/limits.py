"""How much of this machine one load may use: CPUs by affinity and quota, memory by cgroup limit and what is free."""

from __future__ import annotations

import os
from pathlib import Path

from rankscope.analyzers.trace.readers.parts import file_of

WORKER_BYTES = 150 << 20  # an idle worker with numpy and its buffers, with room to spare
RAW_SHARE = 0.7  # resident memory of a worker, as a share of the uncompressed file it reads


def jobs(asked: int | None, raw_sizes: list[int], root: Path = Path("/")) -> int:
    """How many workers to run over files of these uncompressed sizes (bytes); at least one, and at most `asked`."""
    room = memory_bytes(root)
    each = RAW_SHARE * max(raw_sizes, default=0) + WORKER_BYTES
    by_memory = len(raw_sizes) if room is None else int(room / each)
    return max(1, min(asked or cpus(root), len(raw_sizes), by_memory))


def cpus(root: Path = Path("/")) -> int:
    """CPUs this process may use: its affinity, and the quota of its cgroup rounded up."""
    mine = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    for folder in _cgroup_folders(root, "cpu"):
        quota, period = _cpu_quota(folder)
        if quota > 0 and period > 0:
            mine = min(mine, -(-quota // period))
    return max(1, mine)


def memory_bytes(root: Path = Path("/")) -> int | None:
    """Bytes that may still be taken without swapping or being killed; None where the system does not say."""
    room = _available(root)
    for folder in _cgroup_folders(root, "memory"):
        for limit, used in (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")):
            allowed, taken = _number(folder / limit), _number(folder / used)
            if allowed is not None and taken is not None:
                left = max(0, allowed - taken + _reclaimable(folder))
                room = left if room is None else min(room, left)
    return room


def raw_size(path: str) -> int:
    """Uncompressed bytes of a JSON or gzip file, estimated from its size and gzip's trailer; 0: it cannot be opened."""
    try:
        with open(file_of(path), "rb") as file:
            packed = os.fstat(file.fileno()).st_size
            if file.read(2) != b"\x1f\x8b" or packed < 18:
                return packed
            file.seek(-4, os.SEEK_END)
            return max(
                int.from_bytes(file.read(4), "little"), 10 * packed
            )  # the trailer is modulo 4 GiB; traces pack 9 to 20 times
    except OSError:
        return 0


def _available(root: Path) -> int | None:
    try:
        lines = (root / "proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    kib = next((line.split()[1] for line in lines if line.startswith("MemAvailable:")), None)
    return int(kib) * 1024 if kib else None


def _cgroup_folders(root: Path, controller: str) -> list[Path]:
    """The cgroup of this process and all above it, version 2 and version 1; limits hold on every level."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return []
    folders: list[Path] = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        for mounted in {
            controllers,
            controllers and controller,
        }:  # version 1 mounts `cpu,cpuacct`, linked or not as `cpu`
            base = root / "sys/fs/cgroup" / mounted
            here = base / path.lstrip("/")
            folders += [here, *(parent for parent in here.parents if parent.is_relative_to(base))]
    return folders


def _cpu_quota(folder: Path) -> tuple[int, int]:
    try:
        quota, period = (folder / "cpu.max").read_text().split()
        return (0, 0) if quota == "max" else (int(quota), int(period))
    except (OSError, ValueError):
        return _number(folder / "cpu.cfs_quota_us") or 0, _number(folder / "cpu.cfs_period_us") or 0


def _reclaimable(folder: Path) -> int:
    """Page cache that the kernel gives back before it kills: it counts as used and is not."""
    try:
        lines = (folder / "memory.stat").read_text().splitlines()
    except OSError:
        return 0
    stat = dict(line.split() for line in lines if line.count(" ") == 1)
    return int(stat.get("total_inactive_file", stat.get("inactive_file", 0)))


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None
