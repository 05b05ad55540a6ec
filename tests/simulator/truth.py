"""What really happened in a simulated run, in common time: what no trace file says outright."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Planted:
    """One fault as planted: `injected_ns` is added to each of `steps`; `ranks` is empty where all have it."""

    rule: str
    cause: str | None
    ranks: tuple[int, ...]
    group: str | None
    steps: tuple[int, ...]
    injected_ns: int
    injected_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Meeting:
    """One collective: who arrived when, and the end they share. `transfer_ns` is from the last arrival to the end."""

    group: str
    seq: int
    collective: str
    bytes: int
    step: int
    arrivals_ns: dict[int, int]
    end_ns: int

    @property
    def transfer_ns(self) -> int:
        """From the last arrival to the end."""
        return self.end_ns - max(self.arrivals_ns.values())


@dataclass(frozen=True, slots=True)
class Handover:
    """One send and its receive: each end's arrival and end. A sender does not wait."""

    group: str
    source: int
    destination: int
    bytes: int
    step: int
    sent_ns: int
    send_end_ns: int
    awaited_ns: int
    end_ns: int

    @property
    def arrived_ns(self) -> int:
        """When both ends were there and the receiver's transfer began."""
        return max(self.sent_ns, self.awaited_ns)

    @property
    def dependency_ns(self) -> int:
        """How long the receiver waited for the sender."""
        return self.arrived_ns - self.awaited_ns


@dataclass(frozen=True, slots=True)
class Window:
    """One step on one rank's device: from the end of the work launched before it to the next step's begin."""

    rank: int
    step: int
    begin_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class Truth:
    """The exact truth of one run."""

    planted: tuple[Planted, ...]
    steps: tuple[int, ...]
    clock_offsets_ns: tuple[int, ...]  # by rank: how far its clock is ahead of common time, at time 0
    clock_drifts_ppb: tuple[int, ...]  # by rank: how much faster its clock runs
    windows: tuple[Window, ...]
    meetings: tuple[Meeting, ...]
    handovers: tuple[Handover, ...]

    def to_json(self) -> str:
        """The truth as JSON text, one line for each window and meeting."""
        parts = asdict(self)
        lines = [f'"{key}": [\n' + ",\n".join(map(json.dumps, value)) + "\n]" for key, value in parts.items()]
        return "{" + ",\n".join(lines) + "}\n"
