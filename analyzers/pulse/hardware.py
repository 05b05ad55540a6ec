"""The machines under the ranks: what NVML and the host's figures say of each, and whether they explain a slow rank."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from rankscope.analyzers.findings import Cause
from rankscope.analyzers.pulse.frontier import Floats
from rankscope.analyzers.pulse.model import Process, Recording
from rankscope.analyzers.pulse.tables import Samples

SLOW_CLOCK: Final = 0.95  # of the peers' median SM clock (ours); Megatron's straggler detector compares the same figure
HOT_C: Final = 85.0  # degrees, after TraceML
THROTTLED_SHARE: Final = 0.1  # of the samples (ours): a limit met now and then slows nobody much
# NVML's bits (nvml.h): why a device runs slower than it could
POWER_BITS: Final = 0x04 | 0x80  # software power cap, hardware power brake
THERMAL_BITS: Final = 0x08 | 0x20 | 0x40  # hardware slowdown, software thermal, hardware thermal
SM_CLOCK: Final = "sm_clock_mhz"
TEMPERATURE: Final = "temperature_c"
REASONS: Final = "throttle_reasons"


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of one rank over the run."""

    name: str
    samples: int
    median: float
    least: float
    most: float
    last: float


@dataclass
class Hardware:
    """What was sampled beside the steps, by rank."""

    recording: Recording

    @cached_property
    def nvml(self) -> Mapping[int, list[Figure]]:
        """NVML's figures by rank; ranks without a sample are left out. Of several devices the rank's own."""
        return {p.rank: found for p in self.recording.processes if (found := figures(_own(p)))}

    @cached_property
    def host(self) -> Mapping[int, list[Figure]]:
        """The host's figures by rank."""
        return {p.rank: found for p in self.recording.processes if (found := figures(p.host))}

    def sm_clock_share(self, rank: int) -> float | None:
        """This rank's SM clock over the median of its peers'; None: not sampled on it or on no peer."""
        clocks = self._medians(SM_CLOCK)
        own = clocks.pop(rank, None)
        middle = float(np.median(list(clocks.values()))) if clocks else 0.0
        return own / middle if own is not None and middle > 0 else None

    def clock_cause(self, rank: int) -> Cause | None:
        """Why the device of a slow rank is slow: its clock is below its peers' and NVML says why; else None."""
        clock = self.sm_clock_share(rank)
        if clock is None or clock >= SLOW_CLOCK:
            return None
        reasons = _values(self._samples(rank), REASONS).astype(np.int64)
        thermal, power = (
            float(((reasons & bits) != 0).mean()) if len(reasons) else 0.0 for bits in (THERMAL_BITS, POWER_BITS)
        )
        if max(thermal, power) >= THROTTLED_SHARE:
            return "thermal" if thermal >= power else "power"
        temperature = self._medians(TEMPERATURE).get(rank)
        return "thermal" if temperature is not None and temperature >= HOT_C else None

    def temperature_c(self, rank: int) -> float | None:
        """Its median temperature in degrees; None: not sampled."""
        return self._medians(TEMPERATURE).get(rank)

    def _medians(self, name: str) -> dict[int, float]:
        return {rank: f.median for rank, found in self.nvml.items() for f in found if f.name == name}

    def _samples(self, rank: int) -> Samples:
        return next((_own(p) for p in self.recording.processes if p.rank == rank), Samples.empty())


def figures(samples: Samples) -> list[Figure]:
    """Each figure summed up, in the order in which the file names them first."""
    names, first, of = np.unique(samples.columns["name"].astype(str), return_index=True, return_inverse=True)
    result = []
    for position in np.argsort(first):
        values = samples.columns["value"][of == position].astype(np.float64)
        values = values[np.isfinite(values)]
        if len(values):
            middle = float(np.median(values))
            result.append(
                Figure(
                    str(names[position]),
                    len(values),
                    middle,
                    float(values.min()),
                    float(values.max()),
                    float(values[-1]),
                )
            )
    return result


def _values(samples: Samples, name: str) -> Floats:
    found: Floats = samples.columns["value"][samples.columns["name"] == name].astype(np.float64)
    return found[np.isfinite(found)]


def _own(process: Process) -> Samples:
    """The samples of the rank's own device: the one that was sampled last, once torch had said which it is."""
    samples = process.nvml
    known = samples.valid("device")
    if not known.any():
        return samples
    return samples.take(~known | (samples.columns["device"] == samples.columns["device"][known][-1]))
