"""Holds a spliced run against what cannot have changed."""

from __future__ import annotations

from collections.abc import Iterator

from rankscope.simulator.splicing.placing import Placed
from rankscope.simulator.splicing.planting import Spliced


def check(spliced: Spliced) -> list[str]:
    """What is wrong with it, in words; nothing in a sound one."""
    return [*_times(spliced), *_work(spliced), *_together(spliced)]


def _times(spliced: Spliced) -> Iterator[str]:
    """No event begins before it was recorded to, or ends before it begins."""
    for rank, lane in spliced.waits.lanes.items():
        placed = Placed(lane, spliced.waits.graph.recorded_ns, spliced.times_ns)
        for event, times in placed.times().items():
            if times.end_ns < times.begin_ns:
                yield f"rank {rank}: event {event} ends before it begins"
            if times.begin_ns < lane.file.times[event].begin_ns:
                yield f"rank {rank}: event {event} begins earlier than recorded"


def _work(spliced: Spliced) -> Iterator[str]:
    """Work that was not touched lasts as long; on a stream it stays in order, and apart where it was."""
    for rank, lane in spliced.waits.lanes.items():
        last: dict[object, int] = {}
        for event in lane.file.device:
            old, begin, end = lane.file.times[event], lane.begins[event], lane.ends[event]
            kept = spliced.times_ns[end] - spliced.times_ns[begin] == old.end_ns - old.begin_ns
            if not kept and end not in spliced.added_ns and not lane.file.is_collective(event):
                yield f"rank {rank}: work {event} lasts another time"
            stream = lane.file.track(event)
            if stream in last:
                before = last[stream]
                apart = lane.file.times[before].end_ns <= old.begin_ns
                if apart and spliced.times_ns[lane.ends[before]] > spliced.times_ns[begin]:
                    yield f"rank {rank}: work {event} overlaps what ran before it"
            last[stream] = event


def _together(spliced: Spliced) -> Iterator[str]:
    """Ranks leave a collective as far apart as they did, unless one left before the last came."""
    for slot in spliced.waits.met:
        moments = [spliced.waits.lanes[rank].ends[event] for rank, event in slot]
        recorded = spliced.waits.graph.recorded_ns
        arrived = [spliced.waits.lanes[rank].begins[event] for rank, event in slot]
        if max(recorded[moment] for moment in arrived) > min(recorded[moment] for moment in moments):
            continue
        shifts = {spliced.times_ns[moment] - recorded[moment] for moment in moments}
        if len(shifts) > 1:
            yield f"ranks {[rank for rank, _ in slot]} leave a collective otherwise than they did"
