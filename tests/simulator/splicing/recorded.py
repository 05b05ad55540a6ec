"""Recorded trace files as rows of events with exact times, and back into files."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any

Event = dict[str, Any]

DEVICE_CATEGORIES = ("kernel", "gpu_memcpy", "gpu_memset")
COLLECTIVE = re.compile(r"nccl\w*Kernel|^gloo:")
LAUNCHED = re.compile(r"^c10d::(?!barrier|monitored)\w+_$")
LOADER = "enumerate(DataLoader)#"
STEP = re.compile(r"^ProfilerStep#(\d+)$")


@dataclass(frozen=True, slots=True)
class Times:
    """An event's begin and end, in nanoseconds of its own file."""

    begin_ns: int
    end_ns: int


class RankFile:
    """One rank's file: its events, which of them are device work (collectives of a CPU-only rank count as that)."""

    def __init__(self, path: Path) -> None:
        self.path = path
        raw = path.read_bytes()
        self.content: dict[str, Any] = json.loads(gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw)
        self.events: list[Event] = self.content["traceEvents"]
        self.rank: int = self.content["distributedInfo"]["rank"]
        self.timed = [i for i, event in enumerate(self.events) if event.get("ph") == "X"]
        self.times = {i: _times(self.events[i]) for i in self.timed}
        self.whole_micros = not any(isinstance(self.events[i]["ts"], float) for i in self.timed)

    @cached_property
    def has_device(self) -> bool:
        """Whether kernels were recorded."""
        return any(self.events[i].get("cat") == "kernel" for i in self.timed)

    @cached_property
    def device(self) -> list[int]:
        """Device work, or a CPU-only rank's collectives, by begin."""
        return sorted((i for i in self.timed if self._is_work(i)), key=self._order)

    @cached_property
    def host(self) -> list[int]:
        """Timed events of the threads that train, by begin."""
        work, tracks = set(self.device), {self.track(i) for i in self.device}
        return sorted(
            (i for i in self.timed if i not in work and self.track(i) not in tracks and self._is_host(i)),
            key=self._order,
        )

    @cached_property
    def steps(self) -> dict[int, Times]:
        """The host's step marks."""
        marks = ((STEP.match(str(self.events[i].get("name"))), i) for i in self.host)
        return {int(mark[1]): self.times[i] for mark, i in marks if mark}

    def step_at(self, at_ns: int) -> int | None:
        """The step whose mark holds this moment."""
        return next((step for step, mark in self.steps.items() if mark.begin_ns <= at_ns < mark.end_ns), None)

    def name(self, index: int) -> str:
        """An event's name."""
        return str(self.events[index].get("name"))

    def track(self, index: int) -> tuple[Any, Any]:
        """The process and thread, or device and stream, of an event."""
        return self.events[index].get("pid"), self.events[index].get("tid")

    def is_collective(self, index: int) -> bool:
        """Whether this device work is a collective."""
        return COLLECTIVE.search(self.name(index)) is not None

    @cached_property
    def launches(self) -> dict[int, int]:
        """The host event that launched each device work."""
        if not self.has_device:
            return self._launches_in_order()
        calls = {
            self.events[i]["args"]["correlation"]: i
            for i in reversed(self.host)
            if self.events[i].get("cat") in ("cuda_runtime", "cuda_driver") and "correlation" in self._args(i)
        }
        found = ((i, calls.get(self._args(i).get("correlation"))) for i in self.device)
        return {i: call for i, call in found if call is not None}

    def _launches_in_order(self) -> dict[int, int]:
        launched = [i for i in self.host if LAUNCHED.match(self.name(i))]
        return dict(zip(self.device, launched, strict=True)) if len(launched) == len(self.device) else {}

    def _args(self, index: int) -> Mapping[str, Any]:
        args = self.events[index].get("args")
        return args if isinstance(args, dict) else {}

    def _is_work(self, index: int) -> bool:
        if self.has_device:
            return self.events[index].get("cat") in DEVICE_CATEGORIES
        return self.name(index).startswith("gloo:")

    def _is_host(self, index: int) -> bool:
        return isinstance(self.events[index].get("pid"), int) and self.events[index].get("cat") not in (
            *DEVICE_CATEGORIES, "gpu_user_annotation", "Trace",
        )  # fmt: skip

    def _order(self, index: int) -> tuple[int, int, int]:
        return self.times[index].begin_ns, -self.times[index].end_ns, index

    def text(self, times: Mapping[int, Times], moments: Mapping[int, int]) -> str:
        """The file with these times: of events with a duration, and of moments. What kept its time keeps its digits."""
        return json.dumps({**self.content, "traceEvents": list(self._retimed(times, moments))})

    def _retimed(self, times: Mapping[int, Times], moments: Mapping[int, int]) -> Iterator[Event]:
        for i, event in enumerate(self.events):
            new = dict(event)
            if i in times and times[i] != self.times[i]:
                begin, end = times[i].begin_ns, times[i].end_ns
                new |= {"ts": self._micros(begin), "dur": self._micros(end - begin)}
            elif i in moments and moments[i] != exact_ns(event["ts"]):
                new["ts"] = self._micros(moments[i])
            yield new

    def _micros(self, ns: int) -> int | float:
        return ns // 1000 if self.whole_micros else float(Decimal(ns) / 1000)


@dataclass(frozen=True)
class RecordedRun:
    """The files of one run, by rank. Their clocks must agree: they come from one host."""

    ranks: dict[int, RankFile]

    @staticmethod
    def read(paths: Path | list[Path]) -> RecordedRun:
        """Read a folder, or these files."""
        files = sorted(paths.glob("*.json*")) if isinstance(paths, Path) else paths
        read = sorted((RankFile(path) for path in files), key=lambda file: file.rank)
        return RecordedRun({file.rank: file for file in read})

    @property
    def grain_ns(self) -> int:
        """What times are multiples of."""
        return 1000 if all(file.whole_micros for file in self.ranks.values()) else 1


def exact_ns(micros: int | float | str) -> int:
    """Microseconds as written, in nanoseconds."""
    return micros * 1000 if isinstance(micros, int) else int(Decimal(str(micros)) * 1000)


def _times(event: Event) -> Times:
    begin = exact_ns(event["ts"])
    return Times(begin, begin + exact_ns(event.get("dur", 0)))
