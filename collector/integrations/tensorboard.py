"""Figures of the pulse in TensorBoard: `rankscope.profile("runs/a").add(TensorBoard("tb"))`."""

from __future__ import annotations

import os
from typing import Any

from rankscope.collector.integrations.scalars import Rows, Scalars


class TensorBoard(Scalars):
    """Writes into a directory of its own, or through a `SummaryWriter` that you have."""

    name = "tensorboard"

    def __init__(self, where: str | os.PathLike[str] | Any, every: int = 1) -> None:
        super().__init__(every)
        self._where = where
        self._writer: Any = where if hasattr(where, "add_scalar") else None

    def write(self, rows: Rows) -> None:
        """At the time at which the step began."""
        if self._writer is None:
            from torch.utils.tensorboard import SummaryWriter

            self._writer = SummaryWriter(os.fspath(self._where))
        for step, begin_ns, values in rows:
            for name, value in values.items():
                self._writer.add_scalar(name, value, step, begin_ns / 1e9)

    def close(self) -> None:
        """A writer that you gave stays open."""
        if self._writer is None:
            return
        self._writer.flush()
        if self._writer is not self._where:
            self._writer.close()
            self._writer = None
