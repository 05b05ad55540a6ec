"""PyTorch's flight recorder: the last collectives of this rank, dumped as JSON at the end, on errors and on a stall.

A dump takes 25 us an entry, so it is never made in a step.
"""

from __future__ import annotations

import os
import sys
from typing import Any, Final

from rankscope.collector import ranks
from rankscope.collector.probe import Place, Unavailable
from rankscope.collector.run_dir import FLIGHT_RECORDER, RankFolder, write_atomically

DEFAULT = True
# of newer and of older versions; a process group reads them when it is made
VARIABLES: Final = ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE")
# collectives kept; PyTorch's own default where it records without being asked
ENTRIES: Final = 2000


class FlightRecorder:
    """Switches the recorder on where no process group is there yet, and writes `flight_recorder-REASON.json`."""

    name = "flight_recorder"

    def __init__(self, entries: int = ENTRIES) -> None:
        self._entries = int(entries)
        self._set: list[str] = []
        self._ended = False

    def start(self, place: Place) -> None:
        """Set what a process group reads when it is made, unless the user did."""
        self._place = place
        if ranks.initialised() is None:
            for variable in VARIABLES:
                if variable not in os.environ:
                    os.environ[variable] = str(self._entries)
                    self._set.append(variable)

    def step(self, step: int) -> None:
        """Nothing."""

    def ending(self, reason: str) -> None:
        """Dump now: the process may be about to end."""
        self._ended = True
        dump(self._place.folder, reason.partition(":")[0].partition(" ")[0])

    def stop(self) -> None:
        """Dump, unless that was done for a worse reason. Unavailable where there was nothing to record."""
        for variable in self._set:
            os.environ.pop(variable, None)
        self._set.clear()
        if not self._ended and not dump(self._place.folder, "stop"):
            raise Unavailable("there was no process group")


def dump(folder: RankFolder, reason: str) -> bool:
    """Write what the recorder holds into the rank's folder; False where nothing was recorded. From any thread."""
    module: Any = sys.modules.get("torch._C._distributed_c10d")
    record = getattr(module, "_dump_fr_trace_json", None) or getattr(module, "_dump_nccl_trace_json", None)
    if record is None or sys.modules.get("torch.distributed") is None:
        return False
    text = record()
    text = text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)
    if '"entries":[' not in text and '"entries": [' not in text:
        return False
    write_atomically(folder.file(f"{FLIGHT_RECORDER}-{reason}.json"), text)
    return True


PROBE = FlightRecorder
