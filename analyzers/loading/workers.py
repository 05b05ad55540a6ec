"""Worker processes: a file each at a time, reused over files, only small records coming back.

The processes are fresh interpreters, not made by `multiprocessing`: nothing of the caller's threads or main module is
carried over (no fork, no `if __name__` guard needed), and a killed one costs its file alone.
"""

from __future__ import annotations

import os
import selectors
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum, auto

import msgspec

from rankscope.analyzers.loading.cache import Cache
from rankscope.analyzers.loading.worker import Reply, Setup, receive, reply_for, send
from rankscope.analyzers.one_rank.rank_record import RecordOptions

Done = Callable[[str, Reply], None]
Moved = Callable[[str, float], None]  # path, share of it that is read
_START = "from rankscope.analyzers.loading.worker import main; main()"
_KILLED = "the process that read it was killed twice, perhaps for lack of memory"


class _Outcome(Enum):
    """What became of a file without a reply."""

    DIED = auto()
    NEVER_RAN = auto()


@dataclass(slots=True)
class _Worker:
    process: subprocess.Popen[bytes]
    up: bool = False  # it has said so; one that never does cannot start here
    path: str = ""

    @property
    def inbox(self) -> int:
        assert self.process.stdout is not None
        return self.process.stdout.fileno()

    def hear(self) -> Reply | _Outcome:
        """Its next message, or what its silence means."""
        message = receive(self.inbox)
        if message is None:
            return _Outcome.DIED if self.up else _Outcome.NEVER_RAN
        self.up = True
        return msgspec.msgpack.decode(message, type=Reply)

    def give(self, path: str) -> None:
        """Hand over a file; a worker that is already gone shows when its inbox is read."""
        assert self.process.stdin is not None
        self.path = path
        with suppress(BrokenPipeError):
            send(self.process.stdin.fileno(), os.fsencode(path))


@dataclass(slots=True)
class _Crew:
    """The running workers. Leaving the context ends them all, and what they had not finished writing goes too."""

    setup: Setup
    cache: Cache
    members: list[_Worker] = field(default_factory=list)

    def hire(self) -> _Worker:
        """Start one process."""
        path = os.pathsep.join(place or os.getcwd() for place in sys.path)
        environment = os.environ | {"PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1"}  # numpy's threads are not needed
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", _START],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0, env=environment,
        )  # fmt: skip
        worker = _Worker(process)
        self.members.append(worker)
        assert process.stdin is not None
        with suppress(BrokenPipeError):
            send(process.stdin.fileno(), self.setup)
        return worker

    def dismiss(self, worker: _Worker) -> int:
        """End one process; its exit status."""
        self.members.remove(worker)
        worker.process.kill()
        status = worker.process.wait()
        for pipe in (worker.process.stdin, worker.process.stdout):
            if pipe is not None:
                pipe.close()
        self.cache.sweep(worker.process.pid)
        return status


def each(paths: Sequence[str], jobs: int, options: RecordOptions, cache: Cache, done: Done, moved: Moved) -> None:
    """Read every file, at most `jobs` at once, and call `done(path, reply)` for each as it ends.

    A worker that dies has its file read once more with nothing beside it; if that one dies too, the reply says so.
    Where no worker can be started, files are read in this process.
    """
    setup = Setup(options, cache.folder, cache.cap_bytes)
    lost: list[str] = []
    with _crew(setup, cache) as crew:
        for path, outcome in _work(crew, paths, jobs, moved):
            if outcome is _Outcome.DIED:
                lost.append(path)
            else:
                done(path, reply_for(path, options, cache) if outcome is _Outcome.NEVER_RAN else outcome)
    for path in lost:
        with _crew(setup, cache) as crew:
            ((_, outcome),) = _work(crew, [path], 1, moved)
        done(path, outcome if isinstance(outcome, Reply) else Reply(reason=_KILLED))


def _work(crew: _Crew, paths: Sequence[str], jobs: int, moved: Moved) -> Iterator[tuple[str, Reply | _Outcome]]:
    """Every path with what became of it."""
    waiting = deque(paths)
    with selectors.DefaultSelector() as inboxes:

        def hire() -> None:
            worker = crew.hire()
            inboxes.register(worker.inbox, selectors.EVENT_READ, worker)
            worker.give(waiting.popleft())

        for _ in range(min(jobs, len(waiting))):
            hire()
        while inboxes.get_map():
            for ready, _ in inboxes.select():
                worker: _Worker = ready.data
                outcome = worker.hear()
                if isinstance(outcome, Reply) and outcome.share is not None:
                    moved(worker.path, outcome.share)
                    continue
                yield worker.path, outcome
                if isinstance(outcome, Reply) and waiting:
                    worker.give(waiting.popleft())
                    continue
                inboxes.unregister(worker.inbox)
                crew.dismiss(worker)
                if waiting:
                    hire()


@contextmanager
def _crew(setup: Setup, cache: Cache) -> Iterator[_Crew]:
    crew = _Crew(setup, cache)
    try:
        yield crew
    finally:
        for worker in list(crew.members):
            crew.dismiss(worker)
