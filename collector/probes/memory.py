"""Memory at the end of each step: resident memory of the process, and the device allocator's figures where it is used."""

from __future__ import annotations

import os
import sys
from typing import Any

from rankscope.collector.probe import Place, Unavailable

DEFAULT = True


class Memory:
    """Adds `memory` to the step's line. The peak is the allocator's own: since the start, or the user's last reset."""

    name = "memory"

    def __init__(self) -> None:
        self._statm = -1
        self._page_bytes = 0
        self._retries = self._failures = 0

    def start(self, place: Place) -> None:
        """Open the process's figures once; Unavailable without /proc and without a device."""
        self._place = place
        try:
            self._statm = os.open("/proc/self/statm", os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
            self._page_bytes = os.sysconf("SC_PAGE_SIZE")
        except (OSError, AttributeError) as error:
            if self._allocator() is None:
                raise Unavailable("this system has no /proc, and no device is in use") from error

    def step(self, step: int) -> None:
        """Read both: some two microseconds, and some ten more with a device."""
        found: dict[str, int] = {}
        if self._statm >= 0:
            found["host_bytes"] = int(os.pread(self._statm, 128, 0).split()[1]) * self._page_bytes
        figures = self._allocator()
        if figures is not None:
            found["device_bytes"] = figures["allocated_bytes"]["all"]["current"]
            found["device_peak_bytes"] = figures["allocated_bytes"]["all"]["peak"]
            found["reserved_bytes"] = figures["reserved_bytes"]["all"]["current"]
            self._changed(figures.get("num_alloc_retries", 0), figures.get("num_ooms", 0))
        self._place.line["memory"] = found

    def stop(self) -> None:
        """Close."""
        if self._statm >= 0:
            os.close(self._statm)
            self._statm = -1

    def _changed(self, retries: int, failures: int) -> None:
        if (retries, failures) != (self._retries, self._failures):
            self._retries, self._failures = retries, failures
            self._place.records.event("allocator", retries=retries, out_of_memory=failures)

    def _allocator(self) -> dict[str, Any] | None:
        torch = sys.modules.get("torch")
        cuda = getattr(torch, "cuda", None)
        if cuda is None or not cuda.is_initialized():
            return None
        figures: dict[str, Any] = cuda.memory_stats_as_nested_dict()
        return figures or None


PROBE = Memory
