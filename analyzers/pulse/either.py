"""Rules that traces or the pulse can serve: a trace sees more, so it is asked first."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from rankscope.analyzers.analysis import Analysis
from rankscope.analyzers.findings import Finding, MissingSignal
from rankscope.analyzers.pulse.model import Recording
from rankscope.analyzers.pulse.pulse import Pulse
from rankscope.analyzers.run import Run


def either(
    analysis: Analysis,
    by_traces: Callable[[Analysis], Iterable[Finding]],
    by_pulse: Callable[[Pulse], Iterable[Finding]],
) -> Iterable[Finding]:
    """What traces say; where there are none, or they lack the signal, what the pulse says."""
    if analysis.pulse is None:
        return by_traces(analysis)
    if not analysis.ranks:
        return by_pulse(analysis.pulse)
    try:
        return list(by_traces(analysis))
    except MissingSignal:
        return by_pulse(analysis.pulse)


def recording_of(run: Run) -> Recording:
    """The run directory of the run; MissingSignal where it has none."""
    if run.recording is None:
        raise MissingSignal("the run was not recorded by rankscope's collector", RECORD)
    return run.recording


RECORD = "rankscope run -- torchrun ... train.py  # records the pulse of every rank"
