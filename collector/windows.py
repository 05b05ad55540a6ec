"""Which steps the profiler's windows cover: by schedule, on request, or when the steps become slower; on all ranks the same.

A schedule needs no agreement. For the others the first rank that wishes a window puts it on a board (see `board.py`), far
enough ahead for all ranks to see it in time. A board that can not be reached is given up for the next: the rendezvous
store, files in the run directory, and at last each rank for itself, which is said in `events.jsonl`.
"""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Final

from rankscope.collector.board import Board
from rankscope.collector.probe import Records

POLL_S: Final = 0.5  # between two looks at the board
CROWD: Final = 64  # ranks; more look less often, so that a store has 128 looks a second to answer and no more
# between a wish and its window: three looks, and as much again for a store that is slow
AHEAD_S: Final = 3.0
AHEAD_STEPS: Final = 3  # at the least: ranks that train together are a step apart
SETTLED: Final = 10  # steps after which a process group is up and all ranks have their folders
STUCK_S: Final = 6.0  # a call to a board that takes longer is not waited for
MOST_STEPS: Final = 10_000
OpenBoard = Callable[[], Board | None]


@dataclass(frozen=True, slots=True)
class Window:
    """Steps `first` to `last`. `agreed`: how the ranks came to the same: "schedule", "store", "files", "alone"."""

    first: int
    last: int
    why: str
    stacks: bool = False
    memory: bool = False
    asked_ns: int = 0  # of the request, by its file's time
    agreed: str = "schedule"


@dataclass(frozen=True, slots=True)
class Schedule:
    """Windows of `steps` steps at `first`, `first + every` and so on; `every` 0: once; `first` None: none at all."""

    first: int | None = None
    steps: int = 3
    every: int = 0

    def window(self, step: int) -> Window | None:
        """The window that begins with this step."""
        if self.first is None or step < self.first:
            return None
        since = step - self.first
        begins = since == 0 or (self.every > 0 and since % self.every == 0)
        return Window(step, step + self.steps - 1, "schedule") if begins else None


class Windows:
    """Knows the next window. `wish` and `watch` from any thread, `due` from the training thread."""

    def __init__(self, schedule: Schedule, boards: list[OpenBoard], records: Records, ranks: int = 1) -> None:
        self._schedule, self._boards, self._records = schedule, boards, records
        self._patience = max(1.0, ranks / CROWD)
        self._step, self._step_s, self._at = 0, 1.0, 0.0
        self._coming: Window | None = None
        self._wish: Window | None = None
        self._number = 0
        self._ends = threading.Event()
        self._board: Board | None = None
        self._generation = 0
        self._calling_since: float | None = None
        self._answered_ns = 0  # the newest request that a window was agreed for

    def start(self) -> None:
        """Begin to look at the board; a rank without a board decides alone."""
        if self._boards:
            name = f"rankscope-windows-{self._generation}"
            threading.Thread(target=self._run, args=(self._generation,), name=name, daemon=True).start()

    def stop(self) -> None:
        """Look no more. A call that still blocks is left to its daemon thread."""
        self._ends.set()

    def wish(
        self, why: str, *, steps: int | None = None, stacks: bool = False, memory: bool = False, asked_ns: int = 0
    ) -> None:
        """A window is wanted, soon; one window answers all wishes of its time."""
        if self._coming is not None or (asked_ns and asked_ns <= self._answered_ns):
            return
        length = min(steps or self._schedule.steps, MOST_STEPS)
        wish = Window(0, length - 1, why, stacks, memory, asked_ns, "alone")
        if self._boards:
            self._wish = wish
        else:
            self._agree(self._placed(wish, ahead=1))

    def due(self, step: int) -> Window | None:
        """The step has ended; the window that begins with the next one. Some microseconds."""
        at, passed = time.monotonic(), max(1, step - self._step)
        if self._at:  # a mean that forgets: steps of some minutes among short ones are checkpoints
            self._step_s += 0.1 * (min((at - self._at) / passed, 60.0) - self._step_s)
        self._step, self._at = step, at
        coming = self._coming
        if coming is not None and coming.first <= step + 1:
            self._coming = None
            if coming.first == step + 1:
                return coming
            self._records.event("window_missed", first=coming.first, why="this rank learnt of it too late")
        return self._schedule.window(step + 1)

    def watch(self) -> None:
        """About every second: give up a board that does not answer at all."""
        since = self._calling_since
        if since is not None and time.monotonic() - since > STUCK_S:
            self._give_up(f"no answer for {STUCK_S:g} s")

    # ---- the thread that looks at the board --------------------------------------------------------------------------

    def _run(self, generation: int) -> None:
        while not self._ends.wait(POLL_S * self._patience) and generation == self._generation and self._boards:
            try:
                self._calling_since = time.monotonic()
                self._look(generation)
            except (RuntimeError, OSError, ValueError) as error:  # torch's DistStoreError is a RuntimeError
                if generation == self._generation:
                    self._give_up(" ".join(str(error).split())[:200])
            finally:
                if generation == self._generation:
                    self._calling_since = None

    def _look(self, generation: int) -> None:
        board = self._board or self._boards[0]()
        if board is None:  # not there yet: the process group or a rank's folder still comes
            self._calling_since = None
            if self._step >= SETTLED:
                self._give_up("is not there")
            return
        self._board = board
        text = board.get(self._number)
        wish = self._wish
        if text is None and wish is not None:
            ahead = max(AHEAD_STEPS, math.ceil(AHEAD_S * self._patience / max(self._step_s, 1e-6)))
            text = board.put(self._number, json.dumps(asdict(self._placed(wish, ahead))))
        if text is not None and generation == self._generation:
            self._number += 1
            self._agree(_window(text, board.kind))

    def _give_up(self, why: str) -> None:
        """Go on with the next board."""
        kind = getattr(self._board, "kind", "a board")
        self._generation += 1
        self._board, self._calling_since = None, None
        self._boards = self._boards[1:]
        to = "files in the run directory" if self._boards else "this rank alone"
        self._records.event("windows", agreed_by=to, why=f"{kind}: {why}")
        if not self._boards and self._wish is not None:
            self._agree(self._placed(self._wish, ahead=1))
        self.start()

    def _placed(self, wish: Window, ahead: int) -> Window:
        first = self._step + 1 + ahead
        return Window(first, first + wish.last, wish.why, wish.stacks, wish.memory, wish.asked_ns, wish.agreed)

    def _agree(self, window: Window) -> None:
        self._wish = None
        self._answered_ns = max(self._answered_ns, window.asked_ns)
        self._coming = window


def _window(text: str, agreed: str) -> Window:
    """What a rank put on the board. Raises ValueError for what no rank puts there."""
    found: dict[str, Any] = json.loads(text)
    first, last = int(found["first"]), int(found["last"])
    if not 0 <= first <= last < first + MOST_STEPS:
        raise ValueError("no window")
    return Window(
        first, last, str(found["why"])[:200], bool(found["stacks"]), bool(found["memory"]), int(found["asked_ns"]), agreed
    )


def schedule_of(mode: str, given: Any) -> Schedule:
    """What `windows=` asks for: a mapping of Schedule's fields, the distance between windows, or nothing.

    Raises ValueError for what means nothing.
    """
    if mode == "pulse" and given is None:
        return Schedule()
    if mode == "full":
        return Schedule(first=1, steps=MOST_STEPS) if given is None else _checked(Schedule(first=1, steps=given))
    if given is None:
        return Schedule(first=20, every=500)  # past compilation and first allocations; then seldom
    if isinstance(given, int):
        return _checked(Schedule(first=given, every=given))
    try:
        return _checked(Schedule(**{"first": 20, **given}))
    except TypeError as error:
        raise ValueError("windows= takes a number of steps, or first, steps and every") from error


def _checked(schedule: Schedule) -> Schedule:
    numbers = (schedule.first, schedule.steps, schedule.every)
    if not all(isinstance(n, int) and n >= 0 for n in numbers) or not 0 < schedule.steps <= MOST_STEPS:
        raise ValueError(f"windows= takes whole numbers, and 1 to {MOST_STEPS:,} steps a window")
    return schedule
