"""What a run directory holds beside traces, computed once and shared by all rules: the base of the analysis."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property

from rankscope.analyzers.across_ranks.clock import Clocks
from rankscope.analyzers.pulse.hardware import Hardware
from rankscope.analyzers.pulse.host_clocks import recorded_clocks
from rankscope.analyzers.pulse.pulse import Pulse
from rankscope.analyzers.run import Run


@dataclass
class Recorded:
    """A run. `only_steps`: numbers of the steps the user asked for."""

    run: Run
    only_steps: Collection[int] | None = None

    @cached_property
    def pulse(self) -> Pulse | None:
        """The stages of every step on every rank; None where no rank recorded a step."""
        recording = self.run.recording
        if recording is None or not any(len(process.steps) for process in recording.processes):
            return None
        return Pulse(recording, self.only_steps)

    @cached_property
    def hardware(self) -> Hardware | None:
        """What was sampled of devices and hosts; None without a run directory."""
        return None if self.run.recording is None else Hardware(self.run.recording)

    @cached_property
    def recorded_clocks(self) -> Clocks | None:
        """The clocks of all processes of the run directory by pings alone; None where there are none."""
        return None if self.run.recording is None else recorded_clocks(self.run.recording)
