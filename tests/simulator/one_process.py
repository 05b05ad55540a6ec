"""What the profiler of a process sees whose threads drive a device each. The first one's thread marks the steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rankscope.simulator.recording import Recorded

THREADS = 4  # numbers kept for the threads of one device
IDS = 10_000_000  # and for the ids of what they record


def together(devices: Sequence[Recorded]) -> Recorded:
    """One recording of all of them."""
    whole = Recorded()
    for number, seen in enumerate(devices):
        ids, threads = number * IDS, number * THREADS
        own = [span for span in seen.spans if not (number and span.name.startswith("ProfilerStep#"))]
        whole.spans += [replace(s, thread=s.thread + threads, id=s.id + ids) for s in own]
        whole.calls += [
            replace(c, thread=c.thread + threads, operator=c.operator + ids, correlation=c.correlation + ids)
            for c in seen.calls
        ]
        whole.works += [
            replace(w, operator=w.operator + ids, correlation=w.correlation + ids, device=number) for w in seen.works
        ]
    return whole
