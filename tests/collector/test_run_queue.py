"""The time a thread stands in the run queue is told by stage, and what cannot be read never reaches training."""

from __future__ import annotations

import os
import sys
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from rankscope.collector.probes.run_queue import RunQueue
from rankscope.collector.stages import BACKWARD, FORWARD, StageClock, now_ns

linux = pytest.mark.skipif(sys.platform != "linux", reason="Linux's schedstat")


def test_queued_time_belongs_to_the_stage_that_ends() -> None:
    clock, queued = StageClock(), [100]
    clock.listening = True
    clock.queue_ns = lambda: queued[0]
    clock.restart(now_ns())
    clock.enter(FORWARD)
    queued[0] += 7
    clock.enter(BACKWARD)
    queued[0] += 30
    mark = clock.mark(now_ns())
    queued[0] += 4
    rest = clock.cut(mark)
    assert clock.record(0)["queued"] == {"forward": 7, "backward": 30}
    clock.restart(now_ns())
    clock.resume(rest)
    clock.close(now_ns())
    assert clock.record(1)["queued"] == {"backward": 4}


def test_a_clock_that_knows_nothing_of_the_queue_says_nothing_of_it() -> None:
    clock = StageClock()
    clock.close(now_ns())
    assert "queued" not in clock.record(0)


@linux
def test_a_thread_that_has_ended_never_reaches_training() -> None:
    clock = StageClock()
    place: Any = SimpleNamespace(clock=clock)
    probe = RunQueue()
    begun = threading.Thread(target=probe.start, args=(place,))
    begun.start()
    begun.join()
    assert clock.queue_ns is not None
    assert clock.queue_ns() == clock.queue_ns() >= 0
    probe.step(0)  # the clock's thread is another: followed
    os.close(os.dup(probe._file))
    probe.stop()
    assert clock.queue_ns is None
