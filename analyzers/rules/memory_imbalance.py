"""One rank needs far more memory than the others.

Why it matters: the fullest device sets the micro-batch of all.
How it is measured: the most memory allocated in a step, of each rank against the median of its peers; it fires for the
rank with most if the device is also well filled, and if that rank leads step after step.
What to do: move layers between pipeline stages, balance experts and embedding tables, look for tensors kept on one rank
(gathered state, metrics, the loader's).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rankscope.analyzers.analysis import Analysis, typical
from rankscope.analyzers.capability import RECORD, memory_bytes
from rankscope.analyzers.findings import Evidence, Finding, MissingSignal
from rankscope.analyzers.persistence import Persistence, persistence
from rankscope.analyzers.pricing import unpriced, unsure
from rankscope.analyzers.quantities import share, size

TITLE = "Memory imbalance"
MORE = 0.20  # than the median of the peers; source: TraceML's memory policy
FULL = 0.30  # of the device, at least; source: TraceML's memory policy
CRITICAL_MORE = 0.30  # with CRITICAL_FULL; source: TraceML's memory policy
CRITICAL_FULL = 0.50  # of the device; source: TraceML's memory policy
MEMORY = "torch.profiler.profile(profile_memory=True)  # on every rank"


def check(analysis: Analysis) -> Iterator[Finding]:
    """Name the rank with most memory, if it persistently has far more than its peers."""
    if len(analysis.places) < 2:
        return
    peaks = analysis.part("allocated_peak_bytes")
    if not peaks.size or not (np.nan_to_num(peaks).max(axis=1) > 0).all():
        raise MissingSignal("memory events were not recorded on every rank", MEMORY)
    most = int(typical(peaks).argmax())
    place = analysis.places[most]
    capacity = memory_bytes(analysis.records[place.lane], place.device)
    if not capacity:
        raise MissingSignal("no file says how much memory its devices have", RECORD)
    others = np.nanmedian(np.delete(peaks, most, axis=0), axis=0)
    more = peaks[most] / np.maximum(others, 1.0) - 1
    typically, full = float(np.nanmedian(more)), float(np.nanmedian(peaks[most])) / capacity
    # Shares of the step stand in for nanoseconds: the test asks for signs, and on few steps for a tenth.
    persists = persistence((more - MORE) * analysis.step_ns, analysis.step_ns, len(analysis.places))
    if persists is Persistence.NONE or typically <= MORE or full < FULL:
        return
    finding = unpriced(
        analysis,
        "risk",
        "critical" if typically > CRITICAL_MORE and full >= CRITICAL_FULL else "warning",
        message=f"Rank {place.rank} has {share(typically)} more memory allocated than its peers, {share(full)} of the device.",
        ranks=[place.rank],
        evidence=[
            Evidence("allocated on it at the peak of a step", round(float(np.nanmedian(peaks[most]))), "bytes"),
            Evidence("median of its peers", round(float(np.nanmedian(others))), "bytes"),
            Evidence("memory of the device", capacity, "bytes"),
        ],
        advice="Balance pipeline stages, experts and tables; look for tensors that only this rank keeps.",
        where=f"Rank {place.rank}: {size(float(np.nanmedian(peaks[most])))} against {size(float(np.nanmedian(others)))}.",
        expected="All ranks can take the larger micro-batch that the others have room for.",
    )
    yield finding if persists is Persistence.TESTED and analysis.steps else unsure(finding)
