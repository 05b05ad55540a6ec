"""Where a step ends, and the line that the pulse keeps of it.

The user's `p.step()` ends a step. Code that never calls it has its steps ended by its first optimizer; whether it will
call is not known before the second time round, so the first end is remembered and only then decided.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rankscope.collector.job import Job
from rankscope.collector.later import Held, LoggedTensor
from rankscope.collector.overhead import Overhead
from rankscope.collector.probe import Place
from rankscope.collector.records import Lines
from rankscope.collector.roster import Roster
from rankscope.collector.run_dir import PULSE
from rankscope.collector.stages import CHECKPOINT, Mark, StageClock, now_ns

# an integer beyond it is no number to most readers of JSON
LARGEST: Final = 1 << 63


class Steps:
    """Ends steps, for as long as it is given them."""

    def __init__(self, clock: StageClock, job: Job, overhead: Overhead, records: Lines) -> None:
        self._clock, self._job, self._overhead, self._records = clock, job, overhead, records
        self.held = Held(self._write)
        self._explicit: bool | None = None  # whether the user's code names the steps; None: not known yet
        self._first_end: Mark | None = None
        self._began_ns = now_ns()
        self._hooks_ns = 0  # the clock's, when the step began
        self._log: dict[str, float] = {}
        self._spans: dict[str, int] = {}

    def begin(self, place: Place, roster: Roster) -> None:
        """The first step begins."""
        self._place, self._roster = place, roster
        self._take = place.guard("log", self._take_value)
        self._began_ns = now_ns()
        self._clock.listening = True
        self._clock.restart(self._began_ns)

    def step(self) -> None:
        """The user says that a step ends."""
        at = now_ns()
        self._explicit, self._first_end = True, None
        self._clock.adopt()
        self._end(at)

    def optimizer_stepped(self, first: bool) -> None:
        """An optimizer has stepped; at the first one's step the step ends, unless the user's code says where."""
        if not first or self._explicit:
            return
        at = now_ns()
        if self._explicit is None and self._first_end is None:
            self._first_end = self._clock.mark(at)
            return
        if self._first_end is not None:  # a second time without a word of the user's: so it will go on
            self._explicit = False
            mark, self._first_end = self._first_end, None
            rest = self._clock.cut(mark)
            self._end(mark.at_ns)
            self._clock.resume(rest)
        self._end(at)

    def log(self, values: Mapping[str, Any]) -> None:
        """Values of the present step: numbers, or tensors of one element, read when they have arrived."""
        if not self._clock.listening:
            return
        began = now_ns()
        for name, value in values.items():
            self._take(name, value)
        self._clock.count(began)

    def span(self, name: str, ns: int) -> None:
        """Add to a span of the present step."""
        if self._clock.listening:
            self._spans[name] = self._spans.get(name, 0) + ns

    def _take_value(self, name: str, value: Any) -> None:
        if hasattr(value, "detach"):
            self._place.later.append(LoggedTensor(name, value))
        else:
            self._log[name] = int(value) if isinstance(value, int) and abs(value) < LARGEST else float(value)

    def _end(self, at: int) -> None:
        """End the step at this time, which may be past."""
        entered = now_ns()
        clock, place = self._clock, self._place
        if clock.listening:
            clock.close(at)
            self._keep(place)
        else:
            self._roster.passed(place.step)
        self._job.stepped(at - self._began_ns - (clock.stage_ns[CHECKPOINT] if clock.listening else 0))
        if self._overhead.stepped(at - self._began_ns, self._records.background_ns):
            self._records.event("thinned", every=self._overhead.every, share=self._overhead.share(self._records.background_ns))
        place.step += 1
        self._records.step = place.step
        self._began_ns = at
        self._hooks_ns = clock.hooks_ns
        clock.listening = place.step % self._overhead.every == 0
        clock.restart(at)
        clock.count(entered)

    def _keep(self, place: Place) -> None:
        """Make the line of the step, let the probes add to it, and pass it on."""
        line = place.line = self._clock.record(place.step)
        line["hooks_ns"] = self._clock.hooks_ns - self._hooks_ns
        if self._log:
            line["log"], self._log = self._log, {}
        if self._spans:
            line["spans"], self._spans = self._spans, {}
        self._roster.step(place.step)
        later, place.later = place.later, []
        self.held.push(line, later)

    def _write(self, line: dict[str, Any]) -> None:
        self._job.judge(line)
        self._records.append(PULSE, line)
        for listener in self._place.listeners:
            listener(line)
