"""Clocks of a run: one a host, and every rank's times on a common one (docs/accounting.md, section 6)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from rankscope.analyzers.intervals import Ints


@dataclass(frozen=True, slots=True)
class HostClock:
    """One host's clock against its component's reference: common = own - offset - drift x (own - origin).

    Nanoseconds; `residual_ns` is what a difference to the reference's times may be off by, `drift_told` whether the run
    is long enough to state the drift.
    """

    component: int
    offset_ns: int
    drift: float  # nanoseconds a nanosecond
    origin_ns: int
    residual_ns: int
    fitted: bool  # from ends or pings; False for a reference
    drift_told: bool = True


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Pings say that a host's clock is so far from where ends say it is, beyond what either leaves open."""

    host: int
    by_ns: int


@dataclass(frozen=True, slots=True)
class Clocks:
    """Clocks of a run by lane (position of the rank). `apart_ns[a, b]`: what the times of two hosts may be off by."""

    host_of: tuple[int, ...]  # lane -> host
    hosts: tuple[HostClock, ...]
    method: tuple[str, ...]  # lane -> method
    apart_ns: Ints = field(compare=False)
    contradicted: tuple[Contradiction, ...] = ()

    def common(self, lane: Ints, times: Ints) -> Ints:
        """Own times to common times, within each component."""
        hosts = np.array(self.host_of, np.int64)[lane]
        offset = np.array([h.offset_ns for h in self.hosts], np.int64)[hosts]
        drift = self._drift(lane)
        if not drift.any():
            return np.asarray(times - offset, np.int64)
        origin = np.array([h.origin_ns for h in self.hosts], np.int64)[hosts]
        # Nanoseconds since 1970 fit no float64, those since the origin do.
        return np.asarray(times - offset - np.rint(drift * (times - origin)).astype(np.int64), np.int64)

    def common_length(self, lane: Ints, length: Ints) -> Ints:
        """Lengths of own time in common time."""
        drift = self._drift(lane)
        return length - np.rint(drift * length).astype(np.int64) if drift.any() else length

    def own_length(self, lane: Ints, length: Ints) -> Ints:
        """Lengths of common time in own time."""
        drift = self._drift(lane)
        return np.rint(length / (1 - drift)).astype(np.int64) if drift.any() else length

    def _drift(self, lane: Ints) -> npt.NDArray[np.float64]:
        return np.array([host.drift for host in self.hosts])[np.array(self.host_of, np.int64)[lane]]

    def component(self, lane: int) -> int:
        """Lanes of one component have one clock."""
        return self.hosts[self.host_of[lane]].component

    def residual_ns(self, lanes: Iterable[int]) -> int:
        """What the clock cannot tell among these lanes: 0 on one host, else the worst of any two hosts involved."""
        hosts = sorted({self.host_of[lane] for lane in lanes})
        return 0 if len(hosts) < 2 else int(self.apart_ns[np.ix_(hosts, hosts)].max())


@dataclass(frozen=True, slots=True)
class End:
    """One symmetric collective's ends: lanes and own end times."""

    lanes: Ints
    ends: Ints
