"""Snapshots of the CUDA allocator: on request (`touch RUN/request-memory`) and when the device runs out of memory.

They open in PyTorch's own memory viewer. With `history=` entries each allocation has its stack, at 1 to 5 us each.
"""

from __future__ import annotations

import os
import sys
from typing import Any, Final

from rankscope.collector.probe import Place, Unavailable
from rankscope.collector.request import MEMORY, Watch

DEFAULT = True
NEEDS = "torch"
# a loop that catches running out of memory and tries smaller batches would fill the disk
MOST: Final = 3


class MemorySnapshot:
    """Writes `memory-oom-STEP.pickle` and `memory-request-STEP.pickle`, at most three of a kind, each with an event."""

    name = "memory_snapshot"

    def __init__(self, history: int = 0) -> None:
        self._history = int(history)
        self._written: dict[str, int] = {}
        self._on = False

    def start(self, place: Place) -> None:
        """Unavailable without CUDA. PyTorch's observer cannot be taken away again; it does nothing after `stop`."""
        torch: Any = sys.modules["torch"]
        if not torch.cuda.is_available():
            raise Unavailable("no CUDA device")
        self._place, self._torch = place, torch
        self._watch = Watch(place.options.run_dir, MEMORY)
        attach = getattr(torch._C, "_cuda_attachOutOfMemoryObserver", None)
        if attach is not None:
            attach(place.guard(self.name, self._out_of_memory))
        if self._history:
            torch.cuda.memory._record_memory_history(max_entries=self._history)
        self._on = True

    def step(self, step: int) -> None:
        """Nothing."""

    def flushed(self) -> None:
        """Look for a request."""
        if self._on and self._watch.asked() is not None:
            self._write("request")

    def stop(self) -> None:
        """Record no more."""
        if self._on and self._history:
            self._torch.cuda.memory._record_memory_history(enabled=None)
        self._on = False

    def _out_of_memory(self, device: int, wanted: int, total: int, free: int) -> None:
        if self._on:
            self._write("oom", device=device, wanted_bytes=wanted, total_bytes=total, free_bytes=free)

    def _write(self, why: str, **facts: int) -> None:
        self._written[why] = self._written.get(why, 0) + 1
        if self._written[why] > MOST:
            return
        name = f"memory-{why}-{self._place.step}.pickle"
        path = self._place.folder.file(name)
        self._torch.cuda.memory._dump_snapshot(path)
        os.chmod(path, 0o600)
        self._place.records.event("memory_snapshot", why=why, file=name, **facts)


PROBE = MemorySnapshot
