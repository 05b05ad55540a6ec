"""Replay: run every worker's program with given durations and see when the step ends.

Delays between operations that nothing explains (launching) are left out; how far the replay with unchanged durations is
from what was measured says how much that is. Cost: about 2 us an act.
"""

from __future__ import annotations

from collections.abc import Sequence

from rankscope.analyzers.what_if.job import Act, Ints, Job, Program


class Deadlock(ValueError):
    """Workers wait for each other for ever: the recorded operations do not fit together."""


def replay(job: Job, ns: Ints) -> dict[int, int]:
    """What each part takes, nanoseconds, when operation i takes `ns[i]`."""
    durations, meeting = ns.tolist(), job.meeting.tolist()
    return {part: _part(job, programs, durations, meeting) for part, programs in sorted(job.programs.items())}


def step_ns(job: Job, ns: Ints) -> float:
    """What a step takes on average."""
    parts = replay(job, ns)
    return sum(parts.values()) / len(parts) / job.steps_a_part


def _part(job: Job, programs: Sequence[Program], ns: Sequence[int], meeting: Sequence[int]) -> int:
    clock = list(job.begins) or [0] * len(programs)
    position = [0] * len(programs)
    came: dict[int, dict[int, int]] = {}  # by meeting: when each operation was started
    stopped: dict[int, list[int]] = {}  # by meeting: the workers that need it and cannot go on
    todo = list(range(len(programs)))
    while todo:
        worker = todo.pop()
        program, at = programs[worker], clock[worker]
        while position[worker] < len(program):
            act, operation = program[position[worker]]
            if act == Act.OWN:
                at += ns[operation]
            elif act == Act.START:
                here = came.setdefault(meeting[operation], {})
                here[operation] = at
                if len(here) == len(job.members[meeting[operation]]):
                    todo += stopped.pop(meeting[operation], ())
            else:
                here = came.get(meeting[operation], {})
                if len(here) < len(job.members[meeting[operation]]):
                    stopped.setdefault(meeting[operation], []).append(worker)
                    break
                at = max(at, max(here.values()) + ns[operation])
            position[worker] += 1
        clock[worker] = at
    if stopped:
        raise Deadlock(f"{len(stopped)} operations never have all their members")
    return max(clock)
