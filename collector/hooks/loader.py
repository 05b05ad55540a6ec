"""Data: the time inside a DataLoader's `__next__`, and inside any loader that the user wrapped."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from rankscope.collector.hooks.patch import Function, Patch, patch
from rankscope.collector.stages import DATA, FORWARD, OTHER, StageClock


def install(clock: StageClock, torch: Any) -> list[Patch]:
    """Watch every DataLoader of this process."""
    iterator = getattr(torch.utils.data.dataloader, "_BaseDataLoaderIter", None)
    return patch(iterator, "__next__", lambda original: timed(clock, original))


def timed(clock: StageClock, advance: Function) -> Function:
    """`advance`, its time counted as data; a batch is followed by the forward pass, the end of an epoch is not."""

    def advanced(*args: Any, **kwargs: Any) -> Any:
        if not clock.mine or clock.current == DATA:
            return advance(*args, **kwargs)
        clock.enter(DATA)
        after = OTHER
        try:
            batch = advance(*args, **kwargs)
            after = FORWARD
            return batch
        finally:
            clock.leave(after)

    return advanced


class WrappedLoader:
    """A loader whose `__next__` is counted as data; everything else is the loader's own."""

    def __init__(self, loader: Any, clock: Callable[[], StageClock | None]) -> None:
        self._loader, self._clock = loader, clock

    def __iter__(self) -> Iterator[Any]:
        batches = iter(self._loader)
        while True:
            clock = self._clock()
            advance = next if clock is None else timed(clock, next)
            try:
                batch = advance(batches)
            except StopIteration:
                return
            yield batch

    def __len__(self) -> int:
        return len(self._loader)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in ("_loader", "_clock"):  # copied or pickled before it has a loader
            raise AttributeError(name)
        return getattr(self._loader, name)
