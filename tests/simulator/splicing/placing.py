"""Where every event of a file lies, once the moments of the graph have their times."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from rankscope.simulator.splicing.recorded import Times, exact_ns
from rankscope.simulator.splicing.waiting import Lane


@dataclass(frozen=True, slots=True)
class Clock:
    """How far a clock is ahead at the first event of its file, and how much faster it runs."""

    offset_ns: int = 0
    drift_ppb: int = 0


class Placed:
    """The new times of one rank's events."""

    def __init__(self, lane: Lane, recorded_ns: list[int], times_ns: list[int], clock: Clock | None = None) -> None:
        self.lane = lane
        self.file = lane.file
        self.recorded_ns = recorded_ns
        self.times_ns = times_ns
        self.clock = clock or Clock()
        self._keys = [anchor.key for anchor in lane.anchors]

    def times(self) -> dict[int, Times]:
        """Events with a duration."""
        placed = {}
        for event in self.file.timed:
            new = self._timed(event)
            placed[event] = Times(self._own(new.begin_ns), self._own(new.end_ns))
        return placed

    def moments(self) -> dict[int, int]:
        """Events without one."""
        placed = {}
        for event, row in enumerate(self.file.events):
            if row.get("ph") != "X" and isinstance(row.get("ts"), int | float):
                at = exact_ns(row["ts"])
                work = self._begun.get((*self.file.track(event), at))
                new = self.host(at) if work is None else at + self._shift(self.lane.begins[work])
                placed[event] = self._own(new)
        return placed

    def host(self, at_ns: int, *, ends: bool = False) -> int:
        """A moment on the host: shifted as the last anchor before it, and not past the next."""
        place = bisect_right(self._keys, 2 * at_ns - 1 if ends else 2 * at_ns)
        new = at_ns + (self._shift(self.lane.anchors[place - 1].moment) if place else 0)
        if place < len(self.lane.anchors):
            new = min(new, self.times_ns[self.lane.anchors[place].moment])
        return new

    def _timed(self, event: int) -> Times:
        times = self.file.times[event]
        if event in self.lane.begins:
            return Times(self.times_ns[self.lane.begins[event]], self.times_ns[self.lane.ends[event]])
        if self.file.track(event) in self._tracks:
            return self._beside_work(event, times)
        begin = self.host(times.begin_ns)
        return Times(begin, max(begin, self.host(times.end_ns, ends=True)))

    def _beside_work(self, event: int, times: Times) -> Times:
        """On a stream or worker thread, but no work: an annotation around some, or an operator inside."""
        works = self._tracks[self.file.track(event)]
        inside = [work for work in works if self._holds(times, self.file.times[work])]
        around = [work for work in works if self._holds(self.file.times[work], times)]
        first, last = (inside[0], inside[-1]) if inside else (around[0], around[0]) if around else (None, None)
        if first is None or last is None:
            return Times(self.host(times.begin_ns), self.host(times.end_ns, ends=True))
        if inside:
            begin = times.begin_ns + self._shift(self.lane.begins[first])
        else:
            begin = max(times.begin_ns + self._shift(self.lane.ends[first]), self.times_ns[self.lane.begins[first]])
        end = times.end_ns + self._shift(self.lane.ends[last])
        return Times(min(begin, end), end)

    def _shift(self, moment: int) -> int:
        return self.times_ns[moment] - self.recorded_ns[moment]

    def _own(self, at_ns: int) -> int:
        """As this rank's clock reads."""
        grain = 1000 if self.file.whole_micros else 1
        ahead = self.clock.offset_ns + (at_ns - self._first) * self.clock.drift_ppb / 1e9
        return at_ns + round(ahead / grain) * grain

    @staticmethod
    def _holds(outer: Times, inner: Times) -> bool:
        return outer.begin_ns <= inner.begin_ns and inner.end_ns <= outer.end_ns

    @cached_property
    def _first(self) -> int:
        return min(times.begin_ns for times in self.file.times.values())

    @cached_property
    def _tracks(self) -> dict[tuple[Any, Any], list[int]]:
        """Device work by stream."""
        return _by(self.file.device, self.file.track)

    @cached_property
    def _begun(self) -> dict[tuple[Any, Any, int], int]:
        """Device work by stream and begin, for the arrows that lead there."""
        return {(*self.file.track(work), self.file.times[work].begin_ns): work for work in reversed(self.file.device)}


def _by(works: Iterable[int], key: Any) -> dict[tuple[Any, Any], list[int]]:
    found: dict[tuple[Any, Any], list[int]] = {}
    for work in works:
        found.setdefault(key(work), []).append(work)
    return found
