"""The critical path on random jobs of several workers: what is on it moves the end, what is not does not."""

from __future__ import annotations

import random

import numpy as np
import pytest

from rankscope.analyzers.what_if.critical_path import critical_path
from rankscope.analyzers.what_if.job import Act, Job, Program, Worker
from rankscope.analyzers.what_if.replay import replay

JOBS = 1_000


def random_job(seed: int) -> Job:
    """Some workers that work, and meet in groups of any size, in one order that all keep; needs come later or not at all."""
    draw = random.Random(seed)
    workers = draw.randint(1, 6)
    ns: list[int] = []
    worker_of: list[int] = []
    meeting: list[int] = []
    members: list[list[int]] = []
    programs: list[list[tuple[Act, int]]] = [[] for _ in range(workers)]
    pending: list[list[int]] = [[] for _ in range(workers)]

    def operation(worker: int, number: int = -1) -> int:
        ns.append(draw.randint(1, 10**9))  # so large that two chains of equal length do not happen
        worker_of.append(worker)
        meeting.append(number)
        return len(ns) - 1

    for _ in range(draw.randint(1, 30)):
        who = draw.sample(range(workers), draw.randint(1, workers))
        if len(who) == 1 or draw.random() < 0.5:
            programs[who[0]].append((Act.OWN, operation(who[0])))
            continue
        members.append([operation(worker, len(members)) for worker in who])
        for worker, one in zip(who, members[-1], strict=True):
            programs[worker].append((Act.START, one))
            pending[worker].append(one)
        for worker in who:
            while pending[worker] and draw.random() < 0.6:
                programs[worker].append((Act.NEED, pending[worker].pop(0)))
    return Job(
        workers=[Worker(f"w{i}", i) for i in range(workers)],
        kinds=["all"],
        kind=np.zeros(len(ns), np.int64),
        worker=np.array(worker_of, np.int64),
        ns=np.array(ns, np.int64),
        ideal=np.array(ns, np.int64),
        typical=np.array(ns, np.int64),
        meeting=np.array(meeting, np.int64),
        members=members,
        programs={0: programs},
        measured_ns={0: 1},
        begins=[draw.randint(0, 10**9) for _ in range(workers)] if draw.random() < 0.5 else (),
    )


def length(job: Job, ns: np.ndarray) -> int:
    return replay(job, ns)[0]


@pytest.mark.parametrize("first", range(0, JOBS, 100))
def test_shortening_moves_the_end_if_and_only_if_it_is_on_the_path(first: int) -> None:
    for seed in range(first, first + 100):
        job = random_job(seed)
        path = critical_path(job, 0)
        whole = length(job, job.ns)
        assert path.length_ns == whole
        on_it = {link.operation for link in path.links}
        for i in range(len(job.ns)):
            shorter = job.ns.copy()
            shorter[i] -= 1
            assert whole - length(job, shorter) == (i in on_it), (seed, i)


@pytest.mark.parametrize("seed", range(60))
def test_the_path_is_whole_and_slack_is_exact(seed: int) -> None:
    job = random_job(seed)
    path = critical_path(job, 0)
    ends = [path.begin_ns, *(link.end_ns for link in path.links)]
    assert [link.begin_ns for link in path.links] == ends[:-1] and ends[-1] == path.length_ns
    assert sum(path.by_worker(job).values()) == sum(path.by_kind(job).values()) == path.length_ns - path.begin_ns
    used = {operation for program in job.programs[0] for act, operation in program if act != Act.START}
    for i in used:
        slack = int(path.slack_ns[i])
        longer = job.ns.copy()
        longer[i] += slack
        assert length(job, longer) == path.length_ns
        longer[i] += 1
        assert length(job, longer) == path.length_ns + 1


def test_who_came_last_is_on_the_path_and_who_waited_is_not() -> None:
    program: list[Program] = [
        [(Act.OWN, 0), (Act.START, 1), (Act.NEED, 1)],
        [(Act.OWN, 2), (Act.START, 3), (Act.NEED, 3)],
    ]
    job = Job(
        workers=[Worker("a", 0), Worker("b", 1)], kinds=["work", "reduce"], kind=np.array([0, 1, 0, 1]),
        worker=np.array([0, 0, 1, 1]), ns=np.array([10, 5, 30, 6]), ideal=np.array([20, 5, 20, 5]),
        typical=np.array([20, 5, 20, 5]), meeting=np.array([-1, 0, -1, 0]), members=[[1, 3]], programs={0: program},
        measured_ns={0: 36},
    )  # fmt: skip
    path = critical_path(job, 0)
    assert [link.operation for link in path.links] == [2, 3]
    assert path.slack_ns.tolist() == [20, 1, 0, 0]
    assert path.by_kind(job) == {"work": 30, "reduce": 6}
