"""Measure whole processes: wall, CPU with all children, and the resident memory of the process tree."""

from __future__ import annotations

import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
SAMPLE_S = 0.05  # between two looks at the process tree


class Failed(RuntimeError):
    """A measured process ended with an error; its last words are the message."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One run of one command. `peak_rss_bytes`: its largest process; `tree_pss_bytes`: all, shared pages once."""

    wall_s: float
    cpu_s: float
    peak_rss_bytes: int
    tree_pss_bytes: int
    output: str = ""


def run(command: Sequence[str | Path], **environment: str) -> Sample:
    """Run a process to its end; its output's last line is kept. Failed if it does not end well."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    begin = time.perf_counter()
    process = subprocess.Popen(
        list(map(str, command)), env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    peak, done = Peak(), threading.Event()
    watcher = threading.Thread(target=_watch, args=(process.pid, peak, done))
    watcher.start()
    assert process.stdout is not None
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - begin
    process.returncode = os.waitstatus_to_exitcode(status)
    done.set()
    watcher.join()
    if process.returncode:
        raise Failed(f"{' '.join(map(str, command))[:200]}: {output[-1500:]}")
    last = output.strip().splitlines()[-1:] or [""]
    return Sample(wall, usage.ru_utime + usage.ru_stime, _largest(usage.ru_maxrss * 1024, peak), peak.tree_pss, last[0])


@dataclass
class Peak:
    """The most that was seen while a command ran, in bytes."""

    tree_pss: int = 0
    process_rss: int = 0


def _largest(reported: int, seen: Peak) -> int:
    # a child's reported peak starts with what this process held when it forked, so below that only what was seen counts
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return reported if reported > own else seen.process_rss


def _watch(pid: int, peak: Peak, done: threading.Event) -> None:
    while not done.wait(SAMPLE_S):
        members = family(pid)
        peak.tree_pss = max(peak.tree_pss, sum(_figure(member, "smaps_rollup", "Pss:") for member in members))
        peak.process_rss = max(peak.process_rss, *(_figure(member, "status", "VmHWM:") for member in members))


def family(pid: int) -> set[int]:
    """This process and all its descendants."""
    found, todo = set(), [pid]
    while todo:
        one = todo.pop()
        found.add(one)
        try:
            todo += [int(child) for task in os.listdir(f"/proc/{one}/task") for child in _children(one, task)]
        except OSError:
            continue
    return found


def _children(pid: int, task: str) -> list[str]:
    return Path(f"/proc/{pid}/task/{task}/children").read_text().split()


def _figure(pid: int, file: str, label: str) -> int:
    lines = _lines(f"/proc/{pid}/{file}")
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(label)), 0)


def median(samples: Iterable[Sample], figure: str) -> float:
    """The median of one figure over rounds."""
    return statistics.median(getattr(sample, figure) for sample in samples)


def environment(extra: dict[str, str] | None = None) -> dict[str, Any]:
    """Where and with what was measured; every claim carries it."""
    cpu = next(
        (line.split(":")[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")), "unknown"
    )
    memory = next(
        (int(line.split()[1]) * 1024 for line in _lines("/proc/meminfo") if line.startswith("MemTotal")), None
    )
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "cpu": cpu,
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": memory,
        "python": platform.python_version(),
        "versions": {name: version_of(name) for name in ("rankscope", "numpy", "msgspec", "isal", "pandas")}
        | (extra or {}),
    }


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []


def version_of(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


class Report:
    """Prints each target beside what was measured, and keeps all of it as JSON."""

    def __init__(self, name: str, extra: dict[str, str] | None = None) -> None:
        self.name = name
        self.content: dict[str, Any] = {"environment": environment(extra), "targets": [], "samples": {}}

    def keep(self, label: str, samples: Iterable[Sample]) -> None:
        """Keep the samples of one contender."""
        self.content["samples"][label] = [{**asdict(sample), "output": None} for sample in samples]

    def target(self, what: str, measured: float, bound: float, *, at_least: bool = True, unit: str = "x") -> None:
        """Print and keep one target."""
        met = measured >= bound if at_least else measured <= bound
        sign = ">=" if at_least else "<="
        print(
            f"{'met   ' if met else 'MISSED'} {what}: {measured:.3g} {unit} (target {sign} {bound:g} {unit})",
            flush=True,
        )
        self.content["targets"].append(
            {"what": what, "measured": measured, "bound": bound, "at_least": at_least, "unit": unit, "met": met}
        )

    def write(self, *, quick: bool) -> None:
        """Write the JSON; quick runs are no result and go to a name of their own."""
        RESULTS.mkdir(exist_ok=True)
        path = RESULTS / f"{self.name}{'.quick.tmp' if quick else '.json'}"
        path.write_text(json.dumps(self.content, indent=1) + "\n", encoding="utf-8")
        note = " (quick: small traces, so the targets say nothing)" if quick else ""
        print(f"written: {path.relative_to(ROOT)}{note}")


def report_command(path: Path, scratch: Path, *arguments: str | Path) -> list[str | Path]:
    """`rankscope report` of this checkout; the report, as JSON, goes into the scratch folder."""
    out = scratch / "report.json"
    return [sys.executable, "-m", "rankscope", "report", path, "--format", "json", "-o", out, *arguments]
