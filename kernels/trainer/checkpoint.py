"""Checkpoints: sharded, whole or not there, written in the step or from a thread, resumed bit for bit."""

from __future__ import annotations

import shutil
import time
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.planner import SavePlan, SavePlanner
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.checkpoint.storage import WriteResult

KEPT = 2  # newest checkpoints that stay
WHOLE = ".metadata"  # torch.distributed.checkpoint writes this file last


class Checkpoints:
    """The checkpoints of one folder: `step-000010` holds the state after ten steps.

    `delay_ms` makes the writing slow: a fault to plant.
    """

    def __init__(self, folder: Path, *, from_thread: bool = False, delay_ms: float = 0.0) -> None:
        self.folder, self.from_thread, self.delay_ms = folder, from_thread, delay_ms
        self.writing: Future[Any] | None = None
        # a thread's collectives must not come between the training's: a group of their own
        threaded = from_thread and dist.is_initialized()
        self.group = dist.new_group(backend="gloo") if threaded else None

    def save(self, step: int, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        """Write the state after `step` steps; from a thread, once the one before is written."""
        self.finish()
        weights, moments = get_state_dict(model, optimizer)
        state = {"model": weights, "optimizer": moments, "step": torch.tensor(step)}
        writer = SlowWriter(self.folder / f"step-{step:06d}", self.delay_ms)
        if self.from_thread:
            self.writing = dcp.async_save(state, storage_writer=writer, process_group=self.group)
        else:
            dcp.save(state, storage_writer=writer)
            self._forget()

    def load(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> int:
        """Take over the newest whole state; how many steps it has behind it. 0: there is none."""
        found = self._whole()
        if not found:
            return 0
        weights, moments = get_state_dict(model, optimizer)
        state = {"model": weights, "optimizer": moments, "step": torch.tensor(0)}
        dcp.load(state, checkpoint_id=found[-1])
        set_state_dict(model, optimizer, model_state_dict=weights, optim_state_dict=moments)
        return int(state["step"])

    def finish(self) -> None:
        """Wait until nothing is being written."""
        if self.writing is not None:
            self.writing.result()
            self.writing = None
            self._forget()

    def _whole(self) -> list[Path]:
        return sorted(place.parent for place in self.folder.glob(f"step-*/{WHOLE}"))

    def _forget(self) -> None:
        if not dist.is_initialized() or dist.get_rank() == 0:
            for old in self._whole()[:-KEPT]:
                shutil.rmtree(old, ignore_errors=True)


class SlowWriter(dcp.FileSystemWriter):
    """Writes files, and sleeps first: a slow file system."""

    def __init__(self, folder: Path, delay_ms: float) -> None:
        super().__init__(folder)
        self.delay_ms = delay_ms

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> torch.futures.Future[list[WriteResult]]:
        """Sleep, then write."""
        time.sleep(self.delay_ms / 1e3)
        return super().write_data(plan, planner)
