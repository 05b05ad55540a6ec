"""The stage clock of the pulse: a step is a walk over stages on the training thread, each moment in exactly one.

The hooks move it. Times are integers of one monotonic clock, so that the stages of a step add up to its wall time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from rankscope.collector.run_dir import STAGES

DATA, HOST_TO_DEVICE, FORWARD, BACKWARD, OPTIMIZER, CHECKPOINT, OTHER = range(len(STAGES))
BEGIN: Final = -1  # of a step, among the marks of stages that end
NUMBER: Final = {name: number for number, name in enumerate(STAGES)}

now_ns = time.perf_counter_ns


def unix_ns(at_ns: int) -> int:
    """A time of `now_ns`, not long past, in UNIX nanoseconds on the host's clock."""
    return time.time_ns() - (now_ns() - at_ns)


class Mark(NamedTuple):
    """The clock as it stood at one moment of a step, or what was left of the step after that moment."""

    at_ns: int
    at_unix_ns: int
    stage_ns: list[int]
    wait_ns: list[int]
    queued_ns: list[int]


class StageClock:
    """Where the step's time goes. Only the training thread moves it; a deaf clock (`listening` False) ignores all.

    Blocked time belongs to the stage that holds when the segment ends, as all its time does.
    """

    __slots__ = (
        "_queued", "_segment_wait", "began_ns", "began_unix_ns", "current", "hooks", "hooks_ns", "listening", "marked",
        "queue_ns", "queued_ns", "since_ns", "stage_ns", "thread", "unknown", "wait_ns",
    )  # fmt: skip

    def __init__(self) -> None:
        self.listening = False
        self.thread = threading.get_ident()
        self.hooks = self.hooks_ns = 0  # calls, and time inside them, since the start
        self.marked: Callable[[int], None] | None = None  # told BEGIN, and each stage that ends: device events
        self.queue_ns: Callable[[], int] | None = None  # how long the thread has stood in the run queue so far
        self.restart(now_ns())

    def restart(self, at_ns: int) -> None:
        """Begin a step."""
        self.stage_ns = [0] * len(STAGES)
        self.wait_ns = [0] * len(STAGES)
        self.queued_ns = [0] * len(STAGES)
        self._queued = 0 if self.queue_ns is None else self.queue_ns()
        self.current = OTHER
        self.began_ns = self.since_ns = at_ns
        self.began_unix_ns = unix_ns(at_ns)
        self._segment_wait = 0
        self.unknown: set[int] = set()  # stages of this step whose wait is not known
        if self.listening and self.marked is not None:
            self.marked(BEGIN)

    def adopt(self) -> None:
        """Watch this thread from now on: it is the one that trains."""
        self.thread = threading.get_ident()

    def count(self, began_ns: int) -> None:
        """Own time, from then to now, that no move of the clock counts."""
        self.hooks += 1
        self.hooks_ns += now_ns() - began_ns

    @property
    def mine(self) -> bool:
        """Whether this thread is the one that is watched, and it is watched now."""
        return self.listening and threading.get_ident() == self.thread

    def enter(self, stage: int) -> int:
        """Begin a stage; the one that it interrupts, to be given to `leave`."""
        at = now_ns()
        before = self.current
        if before != stage:
            self._close(at, before)
            self.current = stage
        self.count(at)
        return before

    def leave(self, stage: int) -> None:
        """Go on with a stage."""
        self.enter(stage)

    def enter_backward(self) -> int:
        """Begin backward; what came before it since the last boundary was the forward pass, unless it has a name."""
        if self.current == OTHER:
            self.current = FORWARD
        return self.enter(BACKWARD)

    def blocked(self, ns: int | None) -> None:
        """The training thread stood in a collective for so long, just now, in the present stage; None: not known."""
        if ns is None:
            self.unknown.add(self.current)
        else:
            self._segment_wait += ns

    def mark(self, at_ns: int) -> Mark:
        """The step as it is at this time; it goes on."""
        self._close(at_ns, self.current)
        return Mark(at_ns, unix_ns(at_ns), self.stage_ns[:], self.wait_ns[:], self.queued_ns[:])

    def cut(self, mark: Mark) -> Mark:
        """Take back what came after the mark, so that the step can be closed there; what was taken is for `resume`."""
        self._close(now_ns(), self.current)
        rest = Mark(
            mark.at_ns, mark.at_unix_ns,
            [now - then for now, then in zip(self.stage_ns, mark.stage_ns, strict=True)],
            [now - then for now, then in zip(self.wait_ns, mark.wait_ns, strict=True)],
            [now - then for now, then in zip(self.queued_ns, mark.queued_ns, strict=True)],
        )  # fmt: skip
        self.stage_ns, self.wait_ns, self.since_ns = mark.stage_ns, mark.wait_ns, mark.at_ns
        self.queued_ns = mark.queued_ns
        return rest

    def resume(self, rest: Mark) -> None:
        """Begin the next step with what was taken back."""
        self.began_ns, self.began_unix_ns = rest.at_ns, rest.at_unix_ns
        self.stage_ns, self.wait_ns, self.queued_ns = rest.stage_ns, rest.wait_ns, rest.queued_ns
        self.since_ns = rest.at_ns + sum(rest.stage_ns)

    def close(self, at_ns: int) -> None:
        """End the step at this time of `now_ns`."""
        self._close(at_ns, self.current)

    def record(self, step: int) -> dict[str, Any]:
        """The closed step as a line of `pulse.jsonl`; stages without time are left out."""
        stages = {name: ns for name, ns in zip(STAGES, self.stage_ns, strict=True) if ns}
        line: dict[str, Any] = {
            "step": step,
            "begin_ns": self.began_unix_ns,
            "wall_ns": self.since_ns - self.began_ns,
            "stages": stages,
            "wait": {name: self.wait_ns[NUMBER[name]] for name in stages if NUMBER[name] not in self.unknown},
        }
        if self.queue_ns is not None:
            line["queued"] = {name: ns for name, ns in zip(STAGES, self.queued_ns, strict=True) if ns > 0}
        return line

    def _close(self, at: int, stage: int) -> None:
        length = at - self.since_ns
        self.stage_ns[stage] += length
        if self._segment_wait:
            self.wait_ns[stage] += min(self._segment_wait, length)
            self._segment_wait = 0
        self.since_ns = at
        if self.queue_ns is not None:
            queued = self.queue_ns()
            self.queued_ns[stage] += queued - self._queued
            self._queued = queued
        if self.marked is not None:
            self.marked(stage)
