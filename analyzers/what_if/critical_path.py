"""The critical path of a job: the chain of operations that makes it as long as it is, and how much slack the others have.

It is found backwards from the worker that ends last: through its own work, and at a meeting that it waited for, over the
transfer to the worker that came last, and on from there. An operation on the path that gets shorter shortens the job by as
much, until another chain is the longest; one that is not on it does not.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rankscope.analyzers.what_if.job import Act, Ints, Job, Program
from rankscope.analyzers.what_if.replay import Deadlock


@dataclass(frozen=True, slots=True)
class Link:
    """One operation on the path, and when it is worked on: [begin_ns, end_ns) after the job's begin."""

    operation: int
    begin_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class CriticalPath:
    """The path of one part of a job, in order of time; it covers all of `length_ns` but `begin_ns`, the worker's own begin.

    `slack_ns` by operation: by how much it can last longer before the job does; 0 on the path.
    """

    links: Sequence[Link]
    begin_ns: int
    length_ns: int
    slack_ns: Ints

    def by_kind(self, job: Job) -> dict[str, int]:
        """Nanoseconds of the path by kind of operation, largest first."""
        return self._summed(job.kind, job.kinds)

    def by_worker(self, job: Job) -> dict[str, int]:
        """Nanoseconds of the path by worker, largest first."""
        return self._summed(job.worker, [worker.name for worker in job.workers])

    def _summed(self, column: Ints, names: Sequence[str]) -> dict[str, int]:
        found: dict[str, int] = defaultdict(int)
        for link in self.links:
            found[names[int(column[link.operation])]] += link.end_ns - link.begin_ns
        return dict(sorted(found.items(), key=lambda item: -item[1]))


class _Times:
    """When everything happens in one part: by worker the time after each act, and by meeting when each member came."""

    def __init__(self, job: Job, programs: Sequence[Program], ns: Sequence[int]) -> None:
        self.meeting = job.meeting.tolist()
        self.after: list[list[int]] = [[] for _ in programs]
        self.came: dict[int, dict[int, int]] = defaultdict(dict)
        self.started: dict[int, tuple[int, int]] = {}  # operation -> worker and position of its start
        clock = list(job.begins) or [0] * len(programs)
        stopped: dict[int, list[int]] = defaultdict(list)
        todo = list(range(len(programs)))
        while todo:
            worker = todo.pop()
            done = self.after[worker]
            at = done[-1] if done else clock[worker]
            for act, operation in programs[worker][len(done) :]:
                number = self.meeting[operation]
                if act == Act.OWN:
                    at += ns[operation]
                elif act == Act.START:
                    self.came[number][operation] = at
                    self.started[operation] = (worker, len(done))
                    if len(self.came[number]) == len(job.members[number]):
                        todo += stopped.pop(number, ())
                elif len(self.came[number]) < len(job.members[number]):
                    stopped[number].append(worker)
                    break
                else:
                    at = max(at, max(self.came[number].values()) + ns[operation])
                done.append(at)
        if stopped:
            raise Deadlock(f"{len(stopped)} operations never have all their members")

    def last(self, meeting: int) -> tuple[int, int]:
        """When the last member came, and its operation."""
        operation = max(self.came[meeting], key=lambda o: (self.came[meeting][o], -o))
        return self.came[meeting][operation], operation


def critical_path(job: Job, part: int, ns: Ints | None = None) -> CriticalPath:
    """The critical path of one part of the job. Cost: linear in its acts."""
    durations = (job.ns if ns is None else ns).tolist()
    programs = job.programs[part]
    times = _Times(job, programs, durations)
    begins = list(job.begins) or [0] * len(programs)
    ends = [after[-1] if after else begins[worker] for worker, after in enumerate(times.after)]
    worker = int(np.argmax(ends))
    length, position = ends[worker], len(programs[worker]) - 1
    links = []
    while position >= 0:
        act, operation = programs[worker][position]
        after = times.after[worker][position]
        before = times.after[worker][position - 1] if position else begins[worker]
        if act == Act.OWN and durations[operation]:
            links.append(Link(operation, before, after))
        if act == Act.NEED and after > before:
            arrival, last = times.last(times.meeting[operation])
            links.append(Link(operation, arrival, after))
            worker, position = times.started[last]
        position -= 1
    return CriticalPath(links[::-1], begins[worker], length, _slack(job, programs, durations, times, max(ends)))


def _slack(job: Job, programs: Sequence[Program], ns: Sequence[int], times: _Times, end: int) -> Ints:
    """By operation how much later it could end: the latest time that leaves the end where it is, less its own."""
    slack = np.zeros(len(job.ns), np.int64)
    latest_arrival: dict[int, int] = {}
    needed: dict[int, int] = defaultdict(int)  # by meeting: needs that are not looked at yet
    for program in programs:
        for act, operation in program:
            needed[times.meeting[operation]] += act == Act.NEED
    limit = [end] * len(programs)
    position = [len(program) - 1 for program in programs]
    stopped: dict[int, list[int]] = defaultdict(list)
    todo = list(range(len(programs)))
    while todo:
        worker = todo.pop()
        while position[worker] >= 0:
            act, operation = programs[worker][position[worker]]
            number = times.meeting[operation]
            if act == Act.OWN:
                slack[operation] = limit[worker] - times.after[worker][position[worker]]
                limit[worker] -= ns[operation]
            elif act == Act.NEED:
                slack[operation] = limit[worker] - times.last(number)[0] - ns[operation]
                latest_arrival[number] = min(latest_arrival.get(number, end), limit[worker] - ns[operation])
                needed[number] -= 1
                if not needed[number]:
                    todo += stopped.pop(number, ())
            elif needed[number]:
                stopped[number].append(worker)
                break
            else:
                limit[worker] = min(limit[worker], latest_arrival.get(number, end))
            position[worker] -= 1
    return slack
