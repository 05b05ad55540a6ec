"""The first steps recorded are warm-up, and would spoil an average.

Why it matters: allocation, autotuning, compilation and the first use of every connection make the first steps several
times as long; an average over the capture then says little about training.
How it is measured: the leading steps whose window, the median over ranks, is more than twice the median of the steps
after them. This report leaves the very first step out where two others remain; the figure is what a plain average would
be off by.
What to do: torch.profiler.schedule(wait=..., warmup=...), and averages that leave these steps out (--steps).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from rankscope.analyzers.analysis import Analysis
from rankscope.analyzers.findings import Evidence, Finding, MissingSignal
from rankscope.analyzers.pricing import SILENT, Judged, unpriced
from rankscope.analyzers.pulse.either import either
from rankscope.analyzers.pulse.pulse import Pulse
from rankscope.analyzers.quantities import duration, share, spans

TITLE = "Warm-up in the average"
TIMES = 2.0  # the median of the steps after them; after the first steps of meta-pytorch/attention-gym#487
MOST = 100  # steps; a warm-up that is longer is a slow run (ours)
REMAIN = 3  # steps after them, at least, to tell what is usual (ours)
READS = ("traces", "pulse")
SKIP = "Skip them: torch.profiler.schedule(wait=5, warmup=2, active=10), or --steps here."
SKIP_PULSE = "Leave them out of averages (--steps here)."
RECORD = "prof.step()  # once a step, with schedule=torch.profiler.schedule(wait=5, warmup=2, active=10)"


def check(analysis: Analysis) -> Iterable[Finding]:
    """Report leading steps that are far longer than the others."""
    return either(analysis, by_traces, by_pulse)


def by_traces(analysis: Analysis) -> Iterator[Finding]:
    """As traces show it."""
    if not any(record.facts.has_marks for record in analysis.records):
        raise MissingSignal("no step marks were recorded", RECORD)
    yield from _leading(analysis, analysis.whole_steps(), SKIP)


def by_pulse(pulse: Pulse) -> Iterator[Finding]:
    """As the pulse alone shows it: the first steps that every rank has."""
    typical = np.median(pulse.wall_ns, axis=0)
    steps = {int(n): float(ns) for n, ns in zip(pulse.numbers, typical, strict=True)}
    if not steps or pulse.recording.every > 1:  # a long run, whose first steps weigh nothing
        return
    yield from _leading(pulse, steps, SKIP_PULSE)


def _leading(judged: Judged, steps: dict[int, float], advice: str) -> Iterator[Finding]:
    numbers, lengths = list(steps), np.array(list(steps.values()))
    leading = 0
    while (
        leading < MOST
        and len(lengths) - leading > REMAIN
        and lengths[leading] > TIMES * np.median(lengths[leading + 1 :])
    ):
        leading += 1
    if not leading:
        return
    usual = float(np.median(lengths[leading:]))
    off = float(lengths.mean()) / usual - 1
    if off < SILENT:
        return
    warm = numbers[:leading]
    yield unpriced(
        judged,
        "validity",
        "note",
        message=(
            f"{'Step' if leading == 1 else 'Steps'} {spans(warm)} {'is' if leading == 1 else 'are'} warm-up: an average "
            f"over all steps is {share(off)} too long."
        ),
        evidence=[
            Evidence("longest of them", round(float(lengths[:leading].max())), "ns"),
            Evidence("median of the others", round(usual), "ns"),
            Evidence("a plain average is too long by", off, "share"),
        ],
        advice=advice,
        where=f"{duration(float(lengths[:leading].max()))} against {duration(usual)}.",
        expected="Averages over the capture agree with the step time of training.",
    )
