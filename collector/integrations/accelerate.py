"""Hugging Face Accelerate: `with recorded(accelerator, "runs/a") as p`, and `p.step()` after each batch.

Accelerate leaves the loop to the script, so there is nothing to call back; what it knows is which batches are
accumulated. Imports nothing of it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from rankscope.collector.integrations.guarded import guarded
from rankscope.collector.profile import Profile, profile

NAME: Final = "accelerate"


class AcceleratedProfile:
    """`log` and `span` are the profile's; `step` ends a step once for all batches that are accumulated."""

    def __init__(self, accelerator: Any, recording: Profile) -> None:
        self._accelerator, self._profile = accelerator, recording
        self.log, self.span = recording.log, recording.span

    def step(self) -> None:
        """A batch ends here, and a training step if its gradients were applied."""
        guarded(NAME, self._step)

    def _step(self) -> None:
        if self._accelerator.sync_gradients:
            self._profile.step()


@contextmanager
def recorded(
    accelerator: Any, run_dir: str | os.PathLike[str] | None = None, **options: Any
) -> Iterator[AcceleratedProfile]:
    """Record the block. The options are those of `rankscope.profile`."""
    with profile(run_dir, **options) as recording:
        yield AcceleratedProfile(accelerator, recording)
