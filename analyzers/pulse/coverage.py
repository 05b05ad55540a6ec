"""What a run directory may hold of each rank, and the line that records what is missing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from rankscope.analyzers.pulse.model import Process
from rankscope.analyzers.pulse.tables import stage_names

RUN: Final = "rankscope run -- torchrun ... train.py"
WINDOW: Final = "rankscope run --mode window -- torchrun ... train.py  # a window of the profiler on every rank"


def _any(process: Process, part: str) -> bool:
    return any(process.steps.valid(name).any() for name in stage_names(part)) and len(process.steps) > 0


RECORDED: Final[tuple[tuple[str, str, str, Callable[[Process], bool]], ...]] = (
    ("stages", "where the time of every step goes", RUN, lambda p: _any(p, "")),
    ("waits", "own time of a rank, told from waiting in collectives", RUN, lambda p: _any(p, "wait")),
    (
        "device times",
        "what the device did in each stage",
        f"{RUN}  # on a device, with torch.cuda initialised",
        lambda p: p.manifest.device is None or _any(p, "device"),
    ),
    ("logged values", "loss, gradients, tokens beside the steps", "p.log(loss=loss)", lambda p: len(p.logged) > 0),
    (
        "devices' state",
        "clocks, temperature, power and throttling of a slow rank's device",
        "pip install nvidia-ml-py  # NVML, on a host with an NVIDIA driver",
        lambda p: len(p.nvml) > 0,
    ),
    ("hosts' state", "processor, memory and disk of a slow rank's host", RUN, lambda p: len(p.host) > 0),
    (
        "flight recorder",
        "who did not come to a collective",
        "TORCH_FR_BUFFER_SIZE=2000 rankscope run -- torchrun ... train.py",
        lambda p: len(p.dumps) > 0,
    ),
    ("profiler window", "kernels, operators and collectives, event by event", WINDOW, lambda p: len(p.traces) > 0),
)
