"""Hugging Face `Trainer(..., callbacks=[RankscopeCallback("runs/a")])`: one step for each optimizer step.

The Trainer reports what it logs, evaluates and saves after it has said that the step ended: all three belong to the line
of the step that follows. Importing this file imports transformers.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final

from transformers import TrainerCallback

from rankscope.collector.integrations.guarded import Recording, guarded
from rankscope.collector.profile import profile

NAME: Final = "transformers"
LOGGED: Final = ("loss", "grad_norm", "learning_rate")  # means since the Trainer logged last, as it gives them


class RankscopeCallback(TrainerCallback):
    """Records from the begin of `train()` to its end. The options are those of `rankscope.profile`."""

    def __init__(self, run_dir: str | os.PathLike[str] | None = None, **options: Any) -> None:
        self.profile = profile(run_dir, **options)
        self._recording = Recording(self.profile)

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Begin."""
        self._recording.begin()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """The optimizer has stepped; with gradient accumulation this comes once for all its batches."""
        self.profile.step()

    def on_log(self, args: Any, state: Any, control: Any, logs: Mapping[str, Any] | None = None, **_: Any) -> None:
        """Keep the numbers that the report knows."""
        guarded(NAME, self._log, logs)

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """End."""
        self._recording.end()

    def _log(self, logs: Mapping[str, Any] | None) -> None:
        kept = {name: logs[name] for name in LOGGED if name in logs} if logs else {}
        if kept:
            self.profile.log(**kept)
