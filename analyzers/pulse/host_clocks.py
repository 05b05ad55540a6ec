"""The clocks of a run directory's hosts, from the collector's pings: for the fit to traces, and where there are none."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rankscope.analyzers.across_ranks.clock import Clocks
from rankscope.analyzers.across_ranks.clock_fit import fit_clocks
from rankscope.analyzers.across_ranks.pings import HubPings, Pings
from rankscope.analyzers.intervals import Spans
from rankscope.analyzers.pulse.model import Process, Recording
from rankscope.analyzers.run import Run


def pings_of(run: Run) -> HubPings | None:
    """All rounds of the attempt, for the lanes of the run's traces; None without any."""
    return _pings(run.recording, [loaded.rank for loaded in run.ranks], [loaded.record.meta.host for loaded in run.ranks])


def recorded_clocks(recording: Recording) -> Clocks | None:
    """The clocks of the attempt's processes, a lane each; None where no host asked another."""
    hosts = [process.manifest.host or None for process in recording.processes]
    pings = _pings(recording, recording.ranks, hosts)
    if pings is None:
        return None
    spans = np.array([_span(process) for process in recording.processes], np.int64)
    return fit_clocks(hosts, [], Spans(spans[:, 0], spans[:, 1]), pings)


def _pings(recording: Recording | None, ranks: Sequence[int], hosts: Sequence[str | None]) -> HubPings | None:
    """The rank that asks for its host, and rank 0, which answers, may be none of the lanes: then another on their host is."""
    lane_of = {rank: lane for lane, rank in enumerate(ranks)}
    on_host = {host: lane for lane, host in reversed(list(enumerate(hosts))) if host}
    asked = []
    hubs: list[str] = []
    for process in [] if recording is None else recording.processes:
        lane = lane_of.get(process.rank, on_host.get(process.manifest.host))
        if lane is None or not len(process.pings) or process.rank == 0:
            continue
        pings = process.pings
        asked.append(Pings(lane, pings.unix_ns, pings.ahead_ns, (pings.round_trip_ns + 1) // 2))
        hubs.append(str(pings.columns["peer_host"][0]))
    return HubPings(lane_of.get(0, on_host.get(max(hubs, key=hubs.count))), asked) if asked else None


def _span(process: Process) -> tuple[int, int]:
    """From the first step's begin to the last one's end, by its own clock; without steps, end before begin."""
    rows = process.steps.valid("begin_ns")
    begin = process.steps.ints("begin_ns")[rows]
    if not len(begin):
        return np.iinfo(np.int64).max, np.iinfo(np.int64).min
    return int(begin.min()), int((begin + process.steps.ints("wall_ns")[rows]).max())
