"""Checkpoints: an event a save or load with its bytes, and for asynchronous ones also when they were done."""

from __future__ import annotations

import functools
import os
import sys
import threading
from typing import Any

from rankscope.collector.hooks.checkpoint import PLACES
from rankscope.collector.hooks.patch import Function, Patch, patch
from rankscope.collector.probe import Place
from rankscope.collector.stages import now_ns

DEFAULT = True
NEEDS = "torch"


class Checkpoint:
    """Events `checkpoint_written`: `what`, `asynchronous`, `blocked_ns` of the training thread, `bytes` of this rank, and

    `whole_ns` until an asynchronous save was done. Bytes are absent where the target is neither a path nor a file.
    """

    name = "checkpoint"

    def __init__(self) -> None:
        self._patches: list[Patch] = []
        self._waiting = dict(PLACES)  # modules that the program has not loaded yet
        self._inside = False

    def start(self, place: Place) -> None:
        """Watch what is loaded."""
        self._place = place
        self._written = place.guard(self.name, self._tell)
        self._install()

    def step(self, step: int) -> None:
        """Watch what was loaded since."""
        if self._waiting:
            self._install()

    def stop(self) -> None:
        """Watch no more."""
        for laid in reversed(self._patches):
            laid.undo()
        self._patches.clear()

    def _install(self) -> None:
        for module in [name for name in self._waiting if name in sys.modules]:
            for name in self._waiting.pop(module):
                self._patches += patch(sys.modules[module], name, functools.partial(self._around, name))

    def _around(self, name: str, original: Function) -> Function:
        def checkpoint(*args: Any, **kwargs: Any) -> Any:
            if self._inside or threading.get_ident() != self._place.clock.thread:
                return original(*args, **kwargs)
            self._inside = True
            target, began = _target(name, args, kwargs), now_ns()
            before = _position(target)
            try:
                result = original(*args, **kwargs)
            finally:
                self._inside = False
            self._written(name, target, before, began, now_ns(), result)
            return result

        return checkpoint

    def _tell(self, what: str, target: Any, before: int | None, began: int, ended: int, result: Any) -> None:
        done = getattr(result, "upload_completion", result) if what == "async_save" else None
        facts = {"what": what, "asynchronous": done is not None, "blocked_ns": ended - began}
        if done is None or not hasattr(done, "add_done_callback"):
            self._event(facts, target, before)
            return

        def finished(_: Any) -> None:
            self._event({**facts, "whole_ns": now_ns() - began}, target, before)

        done.add_done_callback(self._place.guard(self.name, finished))

    def _event(self, facts: dict[str, Any], target: Any, before: int | None) -> None:
        size = _bytes(target, before, self._place.rank)
        self._place.records.event("checkpoint_written", **facts, **({} if size is None else {"bytes": size}))


def _target(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Where it goes to or comes from: a path, a file, or None."""
    if "checkpoint_id" in kwargs:
        return kwargs["checkpoint_id"]
    storage = kwargs.get("storage_writer", kwargs.get("storage_reader"))
    if storage is not None:
        return getattr(storage, "path", None)
    if "f" in kwargs:
        return kwargs["f"]
    return args[1] if len(args) > 1 else None


def _position(target: Any) -> int | None:
    try:
        return int(target.tell())
    except (AttributeError, OSError, ValueError, TypeError):
        return None


def _bytes(target: Any, before: int | None, rank: int) -> int | None:
    """Of a file; of this rank's files where the target is the folder of a distributed checkpoint."""
    if before is not None:
        after = _position(target)
        return None if after is None else after - before
    try:
        path = os.fspath(target)
        if not os.path.isdir(path):
            return os.stat(path).st_size
        own = [entry for entry in os.scandir(path) if entry.name.startswith(f"__{rank}_")]
        return sum(entry.stat().st_size for entry in own)
    except (TypeError, OSError):
        return None


PROBE = Checkpoint
