"""What NCCL says of itself: version, its topology as XML from one rank a host, and its log, one file a rank.

NCCL reads its variables when the first communicator is made, so they are set only before there is a process group, and
never over what the user set. The log is taken only where the user asked for one (NCCL_DEBUG) or opted in (`debug=`).
"""

from __future__ import annotations

import os
import sys
from typing import Any, Final

from rankscope.collector import ranks
from rankscope.collector.probe import Place, Unavailable

DEFAULT = True
TOPOLOGY: Final = "nccl-topology.xml"
LOG: Final = "nccl-debug.txt"
DEVICE_FILE: Final = "/dev/nvidiactl"


class NcclLog:
    """`nccl-topology.xml`, `nccl-debug.txt` and an event `nccl` with the version."""

    name = "nccl_log"

    def __init__(self, debug: str | None = None, topology: bool = True, device_file: str = DEVICE_FILE) -> None:
        self._debug, self._topology, self._device_file = debug, topology, device_file
        self._set: dict[str, str] = {}
        self._told = False

    def start(self, place: Place) -> None:
        """Unavailable without an NVIDIA device."""
        if not os.path.exists(self._device_file):
            raise Unavailable("no NVIDIA device")
        self._place = place
        if ranks.initialised() is not None:  # too late for any variable
            return
        if self._debug is not None:
            self._want("NCCL_DEBUG", self._debug)
        if os.environ.get("NCCL_DEBUG", "").upper() not in ("", "NONE"):
            self._want("NCCL_DEBUG_FILE", place.folder.file(LOG))
        if self._topology and not place.local_rank:
            self._want("NCCL_TOPO_DUMP_FILE", place.folder.file(TOPOLOGY))

    def step(self, step: int) -> None:
        """Once, when there is a process group: the version of the NCCL that torch brought along."""
        if self._told or ranks.initialised() is None:
            return
        self._told = True
        nccl: Any = getattr(getattr(sys.modules.get("torch"), "cuda", None), "nccl", None)
        if nccl is not None and ranks.seat().backend == "nccl":
            self._place.records.event("nccl", version=".".join(map(str, nccl.version())))

    def stop(self) -> None:
        """Put the variables back; what NCCL wrote is the user's alone to read."""
        for variable, value in self._set.items():
            if os.environ.get(variable) == value:
                del os.environ[variable]
        for name in (TOPOLOGY, LOG):
            path = self._place.folder.file(name) if hasattr(self, "_place") else ""
            if path and os.path.exists(path):
                os.chmod(path, 0o600)

    def _want(self, variable: str, value: str) -> None:
        if variable not in os.environ:
            os.environ[variable] = self._set[variable] = value


PROBE = NcclLog
