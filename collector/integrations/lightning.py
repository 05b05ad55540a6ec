"""Lightning `Trainer(callbacks=[RankscopeCallback("runs/a")])`: one step for each batch after which an optimizer stepped.

Importing this file imports Lightning, `lightning` or the older `pytorch_lightning`, whichever the script has loaded.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any, Final

from rankscope.collector.integrations.guarded import Recording, guarded
from rankscope.collector.profile import profile

if "pytorch_lightning" in sys.modules and "lightning.pytorch" not in sys.modules:
    from pytorch_lightning import Callback
else:
    from lightning.pytorch import Callback

NAME: Final = "lightning"


class RankscopeCallback(Callback):
    """Records from the begin of training, behind the sanity check, to its end. The options are `rankscope.profile`'s."""

    def __init__(self, run_dir: str | os.PathLike[str] | None = None, **options: Any) -> None:
        self.profile = profile(run_dir, **options)
        self._recording = Recording(self.profile)
        self._seen = 0  # optimizer steps that the trainer has counted

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Begin."""
        self._seen = getattr(trainer, "global_step", 0)
        self._recording.begin()

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """End the step if an optimizer stepped: several in one batch end one step, accumulated batches none."""
        guarded(NAME, self._batch, trainer, pl_module, outputs)

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """End."""
        self._recording.end()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Training broke."""
        self._recording.broke(exception)

    def _batch(self, trainer: Any, module: Any, outputs: Any) -> None:
        loss = outputs.get("loss") if isinstance(outputs, Mapping) else outputs
        if loss is not None:
            batches = trainer.accumulate_grad_batches if module.automatic_optimization else 1
            # Lightning has divided what `training_step` returned by the batches that it accumulates
            self.profile.log(loss=loss if batches == 1 else loss * batches)
        seen = trainer.global_step
        if seen != self._seen:
            self._seen = seen
            self.profile.step()
