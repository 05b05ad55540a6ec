"""The clocks: how far each rank's is ahead, how well that is known, and by what."""

from __future__ import annotations

from rankscope.analyzers.findings import Diagnosis
from rankscope.reports.blocks import Column, Grid, Name, Quantity, Section

ORDER = 60
METHODS = {
    "reference": "the clock all others are compared with",
    "shared_clock": "same host and time base",
    "ends": "fitted on the ends of collectives",
    "pings": "fitted on the collector's pings",
    "clock_free": "no common clock: waits from durations alone",
    "not_identifiable": "shares no collective with the others",
}
_COLUMNS = (
    Column("rank", numeric=False),
    Column("host", numeric=False),
    Column("ahead by", doc="own clock minus the common one, halfway through its collectives or pings"),
    Column("drift", doc="parts per billion"),
    Column("residual", doc="nothing smaller than this is claimed across ranks"),
    Column("known from", numeric=False),
)


def build(diagnosis: Diagnosis) -> Section | None:
    """None for a single rank: there is nothing to compare."""
    if len(diagnosis.clock) < 2:
        return None
    rows = tuple(
        (
            f"rank {clock.rank}",
            Name(clock.host) if clock.host is not None else "unknown",
            Quantity(clock.offset_ns, "ns"),
            Quantity(clock.drift_ppb, "ppb"),
            Quantity(clock.residual_ns, "ns"),
            METHODS.get(clock.method, clock.method),
        )
        for clock in diagnosis.clock
    )
    lead = "Ranks are compared on one clock; no difference smaller than the residual is believed."
    return Section("clocks", "Clocks", (Grid("", _COLUMNS, rows, brief=4),), lead, detail=True)
