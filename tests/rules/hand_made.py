"""Runs made by hand, step by step, so that a test can put each rule's signal just above and just below its threshold.

A step lasts STEP ns on the host; the device is busy from shortly after its begin to its end unless the test opens a gap.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import rankscope
from rankscope.analyzers.findings import Diagnosis, Finding

US, MS = 1_000, 1_000_000
STEP = 10 * MS
STEPS = 12
BASE = 1_767_225_600_000_000_000
ORIGIN = 4_458_000_000_000_000  # time 0 of a test, after the base
ASKED = 5 * US  # after a step's begin: when the host launches what it has queued
FIRST = 20 * US  # after a step's begin: when the first kernel starts
H100 = {"name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 80_000_000_000, "computeMajor": 9, "computeMinor": 0}


class Rank:
    """One rank's file. Times are absolute nanoseconds of the test; `begin` is that of the step being written."""

    def __init__(self, rank: int = 0, world: int = 1, host: str = "node0", cpu_only: bool = False) -> None:
        self.rank, self.world, self.node, self.cpu_only = rank, world, host, cpu_only
        self.begin = 0
        self.events: list[dict[str, Any]] = []
        self.head: dict[str, Any] = {"deviceProperties": [] if cpu_only else [H100 | {"id": rank}]}
        self._last = 0
        self._seq: dict[str, int] = {}

    def steps(self, n: int = STEPS, length: int = STEP) -> Iterator[int]:
        """Begin of each step, with its mark."""
        for number in range(n):
            self.begin = number * length
            self.host(f"ProfilerStep#{number}", self.begin, self.begin + length, "user_annotation")
            yield self.begin

    def host(self, name: str, start: int, end: int, category: str = "cpu_op", tid: int = 0, **args: Any) -> int:
        """An operator, annotation or Python function; the id that joins it with its device work."""
        self._last += 1
        self._event(category, name, start, end, 4000 + self.rank, 4000 + tid, {"External id": self._last, **args})
        return self._last

    def call(self, name: str, start: int, end: int) -> int:
        """A runtime call; its correlation."""
        self._last += 1
        self._event("cuda_runtime", name, start, end, 4000 + self.rank, 4000, {"correlation": self._last})
        return self._last

    def kernel(
        self,
        start: int,
        end: int,
        name: str = "gemm",
        *,
        asked: int | None = None,
        launched: bool = True,
        external: int = 0,
        stream: int = 7,
        category: str = "kernel",
        **args: Any,
    ) -> None:
        """Device work, launched at `asked`: by default at the step's begin, so that it is queued."""
        at = self.begin + ASKED if asked is None else asked
        correlation = self.call("cudaLaunchKernel", at, at + US) if launched else 10**6 + len(self.events)
        ids = {"device": self.rank, "stream": stream, "correlation": correlation, "External id": external}
        self._event(category, name, start, end, self.rank, stream, ids | args)

    def copy(self, name: str, start: int, end: int, size: int, asked: int | None = None) -> None:
        """A copy: `HtoD (Pageable -> Device)`."""
        self.kernel(start, end, f"Memcpy {name}", asked=asked, category="gpu_memcpy", bytes=size)

    def collective(
        self,
        start: int,
        end: int,
        *,
        elements: int = 1 << 20,
        name: str = "allreduce",
        group: str = "0",
        ranks: Sequence[int] | None = None,
        asked: int | None = None,
        **args: Any,
    ) -> None:
        """A collective of float32 elements."""
        members = list(range(self.world)) if ranks is None else list(ranks)
        seq = self._seq[group] = self._seq.get(group, 0) + 1
        said = {
            "Collective name": name, "In msg nelems": elements, "Out msg nelems": elements, "Group size": len(members),
            "dtype": "Float", "Process Group Name": group, "Process Group Ranks": str(members), "Seq": seq,
        }  # fmt: skip
        kernel = "ncclDevKernel_SendRecv" if name.startswith("all_to_all") else "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
        self.kernel(start, end, kernel, stream=20, asked=asked, **(said | args))

    def memory(self, at: int, allocated: int, reserved: int, kind: int = 1) -> None:
        """What the allocator holds after an allocation; `kind` 0: of the CPU."""
        said = {"Total Allocated": allocated, "Total Reserved": reserved, "Bytes": 1, "Addr": 1, "Device Type": kind}
        event = {"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": 4000, "tid": 4000}
        where = {"Device Id": self.rank if kind else -1}
        self.events.append({**event, "ts": (ORIGIN + at) / 1000, "args": said | where})

    def fill(self, start: int, end: int, **options: Any) -> None:
        """One kernel from start to end."""
        self.kernel(start, end, **options)

    def gap(self, before: int, length: int, *, then: str = "gemm", until: int | None = None) -> tuple[int, int]:
        """The device works up to `before` after the step's begin, then has nothing for `length`; it is asked at its end.

        Returns the gap's begin and end.
        """
        start, end = self.begin + before, self.begin + before + length
        self.kernel(self.begin + FIRST, start)
        stop = self.begin + (STEP if until is None else until)
        self.kernel(end + 10 * US, stop, then, asked=end)
        return start, end

    def write(self, folder: Path) -> None:
        """Write `rank-N.json`."""
        backend = "gloo" if self.cpu_only else "nccl"
        head = {
            "schemaVersion": 1,
            "distributedInfo": {"backend": backend, "rank": self.rank, "world_size": self.world},
            "host_name": self.node,
            "baseTimeNanoseconds": BASE,
        }
        text = json.dumps(head | self.head | {"traceEvents": self.events})
        (folder / f"rank-{self.rank}.json").write_text(text, encoding="utf-8")

    def _event(self, cat: str, name: str, start: int, end: int, pid: int, tid: int, args: dict[str, Any]) -> None:
        times = {"ts": (ORIGIN + start) / 1000, "dur": (end - start) / 1000}
        self.events.append({"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, **times, "args": args})


def ranks(world: int, body: Callable[[Rank, int], None], *, steps: int = STEPS, **options: Any) -> list[Rank]:
    """A run whose ranks all do `body(rank, step)` in every step."""
    made = [Rank(rank, world, **options) for rank in range(world)]
    for rank in made:
        for number, _ in enumerate(rank.steps(steps)):
            body(rank, number)
    return made


def diagnosed(run: Rank | Iterable[Rank], rule: str, folder: Path) -> Diagnosis:
    """Write the run and apply one rule."""
    for rank in [run] if isinstance(run, Rank) else run:
        rank.write(folder)
    diagnosis = rankscope.diagnose(folder, rules=[rule], cache=False, jobs=1)
    assert diagnosis.rules.failed == []
    return diagnosis


def findings(run: Rank | Iterable[Rank], rule: str, folder: Path) -> list[Finding]:
    """What the rule finds; it must have its signal."""
    diagnosis = diagnosed(run, rule, folder)
    assert diagnosis.rules.skipped == []
    return diagnosis.findings


def skipped(run: Rank | Iterable[Rank], rule: str, folder: Path) -> str:
    """The line that records the missing signal; the rule must be skipped."""
    diagnosis = diagnosed(run, rule, folder)
    assert [s.rule for s in diagnosis.rules.skipped] == [rule]
    assert diagnosis.findings == []
    return diagnosis.rules.skipped[0].record
