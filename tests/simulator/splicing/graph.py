"""What waited for what in a recorded run: moments, and how long after others each comes at the earliest."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

Edge = tuple[int, int]  # the moment waited for, and how long after it at the earliest


@dataclass
class Graph:
    """Moments by number. One without edges is where the recording put it."""

    recorded_ns: list[int] = field(default_factory=list)
    after: list[list[Edge]] = field(default_factory=list)

    def add(self, at_ns: int) -> int:
        """A new moment."""
        self.recorded_ns.append(at_ns)
        self.after.append([])
        return len(self.recorded_ns) - 1

    def follow(self, moment: int, earlier: int, at_least_ns: int | None = None) -> None:
        """`moment` comes so long after `earlier` (None: as long as recorded), never longer than it was recorded to."""
        recorded = self.recorded_ns[moment] - self.recorded_ns[earlier]
        self.after[moment].append((earlier, recorded if at_least_ns is None else min(at_least_ns, recorded)))

    def order(self) -> list[int]:
        """The moments, each after what it waits for. ValueError for moments that wait for each other."""
        left = [len(edges) for edges in self.after]
        followers: list[list[int]] = [[] for _ in self.after]
        for moment, edges in enumerate(self.after):
            for earlier, _ in edges:
                followers[earlier].append(moment)
        ready = deque(moment for moment, count in enumerate(left) if not count)
        ordered = []
        while ready:
            moment = ready.popleft()
            ordered.append(moment)
            for follower in followers[moment]:
                left[follower] -= 1
                if not left[follower]:
                    ready.append(follower)
        if len(ordered) < len(left):
            raise ValueError("moments wait for each other")
        return ordered


def retimed(graph: Graph, order: Sequence[int], added_ns: Mapping[int, int]) -> list[int]:
    """When each moment comes if those in `added_ns` come so much later than what they wait for allows."""
    times = list(graph.recorded_ns)
    for moment in order:
        edges = graph.after[moment]
        if edges:
            times[moment] = max(times[earlier] + lag for earlier, lag in edges)
        times[moment] += added_ns.get(moment, 0)
    return times
