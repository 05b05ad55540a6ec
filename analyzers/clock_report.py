"""The clocks as the report states them: of the ranks with a trace; without any, of those that the collector pinged."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from rankscope.analyzers.across_ranks.clock import Clocks
from rankscope.analyzers.analysis import Analysis
from rankscope.analyzers.measured import ClockFit


def clock_report(analysis: Analysis) -> list[ClockFit]:
    """Each rank's clock against the lowest rank's."""
    recording = analysis.run.recording
    if not analysis.ranks and recording is not None and analysis.recorded_clocks is not None:
        hosts = [process.manifest.host or None for process in recording.processes]
        return _fits(analysis.recorded_clocks, recording.ranks, hosts, ())
    loose = {int(lane) for lane in analysis.matches.pool.lane[analysis.splits.clock_free]}
    hosts = [record.meta.host for record in analysis.records]
    return _fits(analysis.matches.clocks, analysis.ranks, hosts, loose)


def _fits(
    clocks: Clocks, ranks: Sequence[int], hosts: Sequence[str | None], loose: Collection[int]
) -> list[ClockFit]:
    result = []
    for lane, (rank, host) in enumerate(zip(ranks, hosts, strict=True)):
        clock, method = clocks.hosts[clocks.host_of[lane]], clocks.method[lane]
        known = method != "not_identifiable"
        if not known and lane in loose:
            method = "clock_free"
        result.append(
            ClockFit(
                rank=rank,
                host=host,
                offset_ns=clock.offset_ns if known else None,
                drift_ppb=clock.drift * 1e9 if known and clock.fitted and clock.drift_told else None,
                residual_ns=clock.residual_ns if known else None,
                method=method,
                origin_ns=clock.origin_ns if known and clock.fitted else None,
            )
        )
    return result
