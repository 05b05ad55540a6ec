"""Which hosts' clocks can be told from each other: those joined by common collectives, directly or over others."""

from __future__ import annotations

from typing import Final

import numpy as np

from rankscope.analyzers.intervals import Ints

MIN_ENDS: Final = 3  # (ours) with fewer common ends the residual cannot be judged


def components(common: Ints, host: Ints, hosts: int) -> tuple[Ints, Ints]:
    """Each host's component, named after its lowest host, and how many collectives any two hosts share.

    `common[i]`: the collective of end i, `host[i]`: its host.
    """
    present = np.zeros((int(common.max(initial=-1)) + 1, hosts), np.float32)
    present[common, host] = 1
    shared = (present.T @ present).astype(np.int64)
    component = np.arange(hosts)
    for start in range(hosts):
        if component[start] != start:
            continue
        found, todo = {start}, [start]
        while todo:
            beside = np.flatnonzero(shared[todo.pop()] >= MIN_ENDS).tolist()
            todo += [h for h in beside if h not in found]
            found.update(beside)
        component[sorted(found)] = start
    return component, shared


def rough_offsets(common: Ints, host: Ints, own: Ints, component: Ints, shared: Ints) -> Ints:
    """How far each host's clock is ahead of its component's lowest host's, drift and jitter apart, in nanoseconds.

    Medians of differences of ends, along the strongest links: no outlier moves them, and nothing is assumed of how far
    clocks are apart.
    """
    hosts = len(component)
    count = int(common.max(initial=-1)) + 1
    ends = np.zeros((count, hosts), np.int64)
    present = np.zeros((count, hosts), np.bool_)
    ends[common, host], present[common, host] = own, True
    rough = np.zeros(hosts, np.int64)
    known = component == np.arange(hosts)
    linked = np.where(component[:, None] == component[None, :], shared, 0)
    while not known.all():
        strength = np.where(known[:, None] & ~known[None, :], linked, 0)
        base, new = divmod(int(np.argmax(strength)), hosts)
        both = present[:, base] & present[:, new]
        rough[new] = rough[base] + round(float(np.median(ends[both, new] - ends[both, base])))
        known[new] = True
    return rough
