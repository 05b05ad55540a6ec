"""Figures of the pulse in Weights & Biases: `rankscope.profile("runs/a").add(WeightsAndBiases(wandb.init(...)))`.

They have an axis of their own, `rankscope/step`, so that W&B's counter of steps stays with what the script logs. Imports
nothing of it; whether the run is offline is the run's to say.
"""

from __future__ import annotations

from typing import Any

from rankscope.collector.integrations.scalars import PREFIX, Rows, Scalars


class WeightsAndBiases(Scalars):
    """Logs into a run that you began, and leaves it open."""

    name = "wandb"

    def __init__(self, run: Any, every: int = 10) -> None:
        super().__init__(every)
        self._run = run
        self._defined = False

    def write(self, rows: Rows) -> None:
        """One row of the run for each step."""
        if not self._defined:
            self._run.define_metric(f"{PREFIX}*", step_metric=f"{PREFIX}step")
            self._defined = True
        for step, _, values in rows:
            self._run.log({f"{PREFIX}step": step, **values})
