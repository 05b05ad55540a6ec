"""The DataLoader from inside: how long the loop waits for a batch, and whether samples, collation or workers are the reason."""

from __future__ import annotations

import sys
from typing import Any, Final

from rankscope.collector.hooks.patch import Function, Patch, patch
from rankscope.collector.probe import Place
from rankscope.collector.stages import now_ns

DEFAULT = True
NEEDS = "torch"
FETCHERS: Final = ("_MapDatasetFetcher", "_IterableDatasetFetcher")


class DataLoader:
    """Adds `loader` to the step's line: `wait_ns`, `batches`, `workers`, and

    with workers `ready` (batches that lay there when the loop came for one; the least of the step) and `outstanding`;
    without workers `fetch_ns` (samples) and `collate_ns`, which workers spend in processes of their own, unseen.
    """

    name = "data_loader"

    def __init__(self) -> None:
        self._patches: list[Patch] = []
        self._line: dict[str, int] = {}

    def start(self, place: Place) -> None:
        """Watch the iterators of all DataLoaders, and the fetchers of those without workers."""
        self._place = place
        torch: Any = sys.modules["torch"]
        module = torch.utils.data.dataloader
        fetch = torch.utils.data._utils.fetch
        come, gone = place.guard(self.name, self._come), place.guard(self.name, self._gone)
        clock = place.clock

        def around_next(original: Function) -> Function:
            def next_(self: Any, *args: Any, **kwargs: Any) -> Any:
                if not clock.mine:
                    return original(self, *args, **kwargs)
                came = come(self)
                batch = original(self, *args, **kwargs)
                gone(self, came)
                return batch

            return next_

        self._patches += patch(getattr(module, "_BaseDataLoaderIter", None), "__next__", around_next)
        for name in FETCHERS:
            self._patches += patch(getattr(fetch, name, None), "fetch", self._around_fetch)

    def step(self, step: int) -> None:
        """Into the line of the step."""
        if self._line:
            self._place.line["loader"], self._line = self._line, {}

    def stop(self) -> None:
        """Watch no more."""
        for laid in reversed(self._patches):
            laid.undo()
        self._patches.clear()

    def _come(self, iterator: Any) -> int:
        """The loop comes for a batch."""
        line = self._line
        workers = int(getattr(iterator, "_num_workers", 0))
        line["workers"] = workers
        queue = getattr(iterator, "_data_queue", None)
        if workers and queue is not None:
            early = sum(len(task) > 1 for task in iterator._task_info.values())  # here, but not its turn
            try:
                ready = queue.qsize() + early
            except NotImplementedError:  # macOS
                ready = early
            line["ready"] = min(line.get("ready", ready), ready)
            line["outstanding"] = int(iterator._tasks_outstanding)
        return now_ns()

    def _gone(self, iterator: Any, came: int | None) -> None:
        """It has its batch."""
        line = self._line
        line["batches"] = line.get("batches", 0) + 1
        if came is not None:
            line["wait_ns"] = line.get("wait_ns", 0) + now_ns() - came

    def _around_fetch(self, original: Function) -> Function:
        probe, clock = self, self._place.clock

        def fetch(self: Any, *args: Any, **kwargs: Any) -> Any:
            if not clock.mine:
                return original(self, *args, **kwargs)
            collate, spent = self.collate_fn, 0

            def timed(batch: Any) -> Any:
                nonlocal spent
                began = now_ns()
                try:
                    return collate(batch)
                finally:
                    spent += now_ns() - began

            began = now_ns()
            self.collate_fn = timed
            try:
                return original(self, *args, **kwargs)
            finally:
                self.collate_fn = collate
                line, whole = probe._line, now_ns() - began
                line["fetch_ns"] = line.get("fetch_ns", 0) + whole - spent
                line["collate_ns"] = line.get("collate_ns", 0) + spent

        return fetch


PROBE = DataLoader
