"""Windows of the PyTorch Profiler: by schedule, on request, or when the steps become slower; at the same steps on all ranks."""

from __future__ import annotations

import os
import sys
import threading
from typing import Any, Final

from rankscope.collector import aside, board, ranks
from rankscope.collector.change import Change
from rankscope.collector.probe import Place, Unavailable
from rankscope.collector.recorder import Recorder, Writing
from rankscope.collector.request import WINDOW, Watch
from rankscope.collector.run_dir import TRACES
from rankscope.collector.stages import now_ns
from rankscope.collector.windows import SETTLED, Schedule, Window, Windows, schedule_of

DEFAULT = True
NEEDS = "torch"
# a change is explained by one window, a second one shows whether it lasted
MOST_CHANGES: Final = 2
REQUEST: Final = "request"

_sessions = 0  # of this process: each has a board of its own, and all ranks count alike


class TorchProfiler:
    """Writes `traces/steps-FIRST-LAST.json.gz`, and an event `window` for each with what it cost.

    `windows` and `steps` override the session's schedule; at most `most` windows, and `most_bytes` of memory for what
    they hold. On CPUs traces are written at the end of the run, those asked for at once; `write_now` writes all at once.
    `fork=False` writes on the training thread. `changes=False` starts no window by itself.
    """

    name = "torch_profiler"
    every_step = True

    def __init__(
        self,
        windows: Any = None,
        *,
        steps: int = 3,
        most: int = 8,
        most_bytes: int = 1 << 29,
        write_now: bool = False,
        fork: bool | None = None,
        changes: bool = True,
    ) -> None:
        self._given, self._steps, self._most, self._most_bytes = windows, steps, most, most_bytes
        self._fork = hasattr(os, "fork") if fork is None else fork
        self._write_now = write_now
        self._changes = MOST_CHANGES if changes else 0
        self._writing: list[Writing] = []
        self._recorder: Recorder | None = None

    def start(self, place: Place) -> None:
        """Unavailable where this build of PyTorch has no profiler."""
        torch = sys.modules["torch"]
        if not hasattr(torch.autograd, "_supported_activities"):
            raise Unavailable("this build of PyTorch has no profiler")
        self._place = place
        mode = place.options.mode
        schedule = schedule_of(mode, place.options.windows if self._given is None else self._given)
        if self._given is None and place.options.windows is None and mode != "full":
            schedule = Schedule(schedule.first, self._steps, schedule.every)
        self._recorder = Recorder(place.folder.file(TRACES), self._fork, lambda call: place.guard(self.name, call))
        self._recorder.warm()
        self._change = Change()
        self._watch = Watch(place.options.run_dir, WINDOW)
        self._windows = Windows(schedule, self._boards(place), place.records, ranks.seat().world_size)
        self._windows.start()

    def step(self, step: int) -> None:
        """Between two steps: end a window, begin one, or neither in some microseconds."""
        recorder = self._recorder
        if recorder is None:
            return
        due = self._windows.due(step)
        if recorder.given_way is not None or recorder.lost is not None:
            self._gave_way(recorder)
        if recorder.window is None and due is None:
            self._look_for_change(step)
            return
        began = now_ns()
        self._move(recorder, due, step)
        # a window has an account of its own: `cost_ns` of its event
        self._place.clock.hooks_ns -= now_ns() - began

    def _move(self, recorder: Recorder, due: Window | None, step: int) -> None:
        if recorder.window is None:
            if due is not None:
                self._begin(recorder, due, step)
            return
        if due is not None:
            self._place.records.event("window_skipped", first=due.first, why="another window is open")
        full = recorder.grown_now() > self._most_bytes
        if step >= recorder.window.last or full:
            self._end(recorder, step, f"more than {self._most_bytes >> 20} MB" if full else "")
        else:
            recorder.step(step + 1)

    def flushed(self) -> None:
        """Requests, children that are done, and a board that does not answer."""
        if self._recorder is None:
            return
        self._windows.watch()
        request = self._watch.asked()
        if request is not None:
            self._windows.wish(
                REQUEST, steps=request.number("steps"), stacks="stacks" in request.words,
                memory="memory" in request.words, asked_ns=request.asked_ns,
            )  # fmt: skip
        for writing in list(self._writing):
            self._settle(writing, writing.child.ended() if writing.child is not None else True)

    def ending(self, reason: str) -> None:
        """After a signal the process ends at once: a child writes what is kept, if this is the thread that recorded it."""
        recorder = self._recorder
        if recorder is None or not reason.startswith("signal"):
            return
        self._recorder = None
        if threading.get_ident() == self._place.clock.thread and recorder.window is None:
            self._take(recorder.write())

    def stop(self) -> None:
        """End an open window, write what is kept, and wait some seconds for children."""
        recorder, self._recorder = self._recorder, None
        if hasattr(self, "_windows"):
            self._windows.stop()
        if recorder is not None:
            last = self._place.step - 1
            if recorder.window is not None and last >= recorder.window.first:
                self._take(recorder.end(last, now=False, cut_short="the run ended"))
            self._gave_way(recorder)
            self._take(recorder.close())
        for writing in list(self._writing):
            child = writing.child
            done = True if child is None else child.ended(aside.LAST_WAIT_S)
            if done is None and child is not None:
                child.kill()
            self._settle(writing, bool(done))

    def _begin(self, recorder: Recorder, window: Window, step: int) -> None:
        why = recorder.busy()
        if self._most <= 0:
            why = "as many windows as a run may have are there"
        elif recorder.grown_bytes > self._most_bytes:
            why = "what is recorded takes as much memory as it may"
        if why is not None:
            self._place.records.event("window_skipped", first=window.first, why=why)
            return
        self._most -= 1
        recorder.begin(window)
        recorder.step(step + 1)

    def _end(self, recorder: Recorder, step: int, cut_short: str) -> None:
        now = self._write_now or (recorder.window is not None and recorder.window.why == REQUEST)
        self._take(recorder.end(step, now, cut_short))
        self._change.forget()

    def _gave_way(self, recorder: Recorder) -> None:
        given_way, recorder.given_way = recorder.given_way, None
        lost, recorder.lost = recorder.lost, None
        self._take(given_way)
        if lost is not None:
            self._place.records.event("window_failed", first=lost.first, why="the program started a profiler of its own")

    def _take(self, writing: Writing | None) -> None:
        if writing is not None:
            self._writing.append(writing)

    def _look_for_change(self, step: int) -> None:
        line = self._place.line
        if self._changes <= 0 or step < SETTLED or line.get("step") != step:  # of another step: this one has no line
            return
        why = self._change.step(line["wall_ns"])
        if why is not None:
            self._changes -= 1
            self._windows.wish(f"change: {why}")

    def _settle(self, writing: Writing, done: bool | None) -> None:
        if done is None:
            return
        self._writing.remove(writing)
        for kept in writing.kept:
            window, bytes_ = kept.window, aside.size(kept.path)
            if not done or bytes_ is None:
                self._place.records.event("window_failed", first=window.first, why="its trace could not be written")
                continue
            self._place.records.event(
                "window", first=window.first, last=window.last, why=window.why, agreed_by=window.agreed,
                file=os.path.basename(kept.path), bytes=bytes_, cost_ns=kept.costs_ns,
                **({"cut_short": kept.cut_short} if kept.cut_short else {}),
            )  # fmt: skip

    def _boards(self, place: Place) -> list[Any]:
        global _sessions
        _sessions += 1
        run_dir, ranks_count = place.options.run_dir, ranks.seat().world_size
        if ranks_count < 2:
            return []
        prefix = f"rankscope/windows/{_sessions}"
        return [lambda: board.store_board(prefix), lambda: board.file_board(run_dir, ranks_count)]


PROBE = TorchProfiler
