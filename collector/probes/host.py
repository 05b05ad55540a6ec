"""The host under this rank, about once a second: whether its processors, disks or memory hold the training thread up."""

from __future__ import annotations

import os
import threading
import time
from typing import Any, Final

from rankscope.collector.probe import Place, Unavailable
from rankscope.collector.run_dir import HOST

DEFAULT = True
CPU_FIELDS: Final = ("user", "nice", "system", "idle", "io_wait", "irq", "softirq", "steal")
LEAST_S: Final = 0.2  # shares of less time are noise: the kernel counts in hundredths


class Host:
    """Writes `host.jsonl`. Shares and rates are those since the last sample; shares of the host are of all its cores.

    `cpu_share` is cores used by this process; `waiting_share` the time that the training thread could run and had no core.
    """

    name = "host"

    def __init__(self, root: str = "/proc", cgroup: str = "/sys/fs/cgroup") -> None:
        self._root, self._cgroup_root = root, cgroup
        self._before: dict[str, float] | None = None

    def start(self, place: Place) -> None:
        """Unavailable without /proc."""
        self._place = place
        if not os.path.exists(os.path.join(self._root, "stat")):
            raise Unavailable("this system has no /proc")
        self._cgroup = _cgroup(self._root, self._cgroup_root)
        self._before = self._counters()

    def step(self, step: int) -> None:
        """Nothing."""

    def flushed(self) -> None:
        """A sample."""
        before = self._before
        if before is None or time.monotonic() - before["at"] < LEAST_S:
            return
        now = self._before = self._counters()
        sample = {"unix_ns": time.time_ns(), "step": self._place.step, **_rates(before, now), **self._states()}
        self._place.records.append(HOST, {key: round(v, 6) if isinstance(v, float) else v for key, v in sample.items()})

    def stop(self) -> None:
        """A last sample."""
        self.flushed()

    def _counters(self) -> dict[str, float]:
        import resource

        used = resource.getrusage(resource.RUSAGE_SELF)
        found = {
            "at": time.monotonic(), "cpu": used.ru_utime + used.ru_stime, "faults": float(used.ru_minflt),
            "major_faults": float(used.ru_majflt), "switches": float(used.ru_nvcsw), "forced_switches": float(used.ru_nivcsw),
        }  # fmt: skip
        for line in _lines(os.path.join(self._root, "stat"))[:1]:
            found |= {f"host_{name}": float(n) for name, n in zip(CPU_FIELDS, line.split()[1:], strict=False)}
        waiting = _lines(os.path.join(self._root, "self", "task", str(self._native()), "schedstat"))
        if waiting and len(waiting[0].split()) > 1:
            found["waiting"] = int(waiting[0].split()[1]) / 1e9
        for line in _lines(os.path.join(self._root, "self", "io")):
            name, _, value = line.partition(":")
            if name in ("read_bytes", "write_bytes"):
                found[name] = float(value)
        if self._cgroup:
            for line in _lines(os.path.join(self._cgroup, "cpu.stat")):
                name, _, value = line.partition(" ")
                if name in ("throttled_usec", "throttled_time"):  # microseconds of version 2, nanoseconds of version 1
                    found["throttled"] = int(value) / (1e6 if name.endswith("usec") else 1e9)
        return found

    def _native(self) -> int | None:
        """The system's number of the training thread."""
        thread = self._place.clock.thread
        return next((t.native_id for t in threading.enumerate() if t.ident == thread), os.getpid())

    def _states(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        load = _lines(os.path.join(self._root, "loadavg"))
        if load:
            found["load"] = float(load[0].split()[0])
        for line in _lines(os.path.join(self._root, "meminfo")):
            if line.startswith("MemAvailable:"):
                found["memory_available_bytes"] = int(line.split()[1]) * 1024
        for what in ("cpu", "io", "memory"):  # shares of the last ten seconds in which some task stood still for it
            for line in _lines(os.path.join(self._root, "pressure", what)):
                if line.startswith("some ") and "avg10=" in line:
                    found[f"{what}_pressure_share"] = float(line.partition("avg10=")[2].split()[0]) / 100
        return found


def _rates(before: dict[str, float], now: dict[str, float]) -> dict[str, float]:
    seconds = now["at"] - before["at"]
    moved = {name: now[name] - before[name] for name in now if name in before}
    found = {
        "cpu_share": moved["cpu"] / seconds,
        "faults_per_s": moved["faults"] / seconds,
        "major_faults_per_s": moved["major_faults"] / seconds,
        "switches_per_s": moved["switches"] / seconds,
        "forced_switches_per_s": moved["forced_switches"] / seconds,
    }
    for counter, name in (
        ("waiting", "waiting_share"), ("throttled", "throttled_share"), ("read_bytes", "read_bytes_per_s"),
        ("write_bytes", "written_bytes_per_s"),
    ):  # fmt: skip
        if counter in moved:
            found[name] = moved[counter] / seconds
    ticks = sum(moved.get(f"host_{name}", 0.0) for name in CPU_FIELDS)
    if ticks > 0:
        idle = moved.get("host_idle", 0.0) + moved.get("host_io_wait", 0.0)
        found["host_busy_share"] = 1 - idle / ticks
        found["host_io_wait_share"] = moved.get("host_io_wait", 0.0) / ticks
        found["host_steal_share"] = moved.get("host_steal", 0.0) / ticks
    return found


def _cgroup(root: str, mounted: str) -> str | None:
    """The folder with this process's `cpu.stat`; None where there is none."""
    for line in _lines(os.path.join(root, "self", "cgroup")):
        parts = line.split(":", 2)
        if len(parts) == 3 and (parts[1] == "" or "cpu" in parts[1].split(",")):
            for folder in (os.path.join(mounted, parts[1], parts[2].lstrip("/")), os.path.join(mounted, parts[1])):
                if os.path.exists(os.path.join(folder, "cpu.stat")):
                    return folder
    return None


def _lines(path: str) -> list[str]:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read(65536).splitlines()
    except OSError:
        return []


PROBE = Host
