"""The reader of PyTorch profiler traces (Kineto), of all ages and vendors."""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import numpy as np

from rankscope.analyzers.errors import UnreadableTrace
from rankscope.analyzers.trace.model import Trace, TraceMeta
from rankscope.analyzers.trace.readers import foreign, meta
from rankscope.analyzers.trace.readers.columns import Names, Tables
from rankscope.analyzers.trace.readers.cutting import LONGEST, Window, enter, leave
from rankscope.analyzers.trace.readers.decoding import QuickTier
from rankscope.analyzers.trace.readers.exact_time import OutOfRange
from rankscope.analyzers.trace.readers.forgiving import ForgivingTier, Salvaged
from rankscope.analyzers.trace.readers.heads import heads_of as heads_of
from rankscope.analyzers.trace.readers.opening import Progress, Text
from rankscope.analyzers.trace.readers.records import Surprise
from rankscope.analyzers.trace.table import Table
from rankscope.analyzers.trace.tables import HostEvents, RuntimeCalls

OTHERWISE_VALID = (msgspec.ValidationError, Surprise, OutOfRange)
NOT_JSON = (msgspec.DecodeError, RecursionError)


def sniff(head: bytes, name: str) -> bool:
    """Whether text that begins so may be a Kineto trace; its name counts for nothing."""
    return foreign.why_not(head) is None


def read(path: str, *, progress: Progress | None = None) -> Trace:
    """Everything the file recorded; UnreadableTrace where that is nothing."""
    collecting = gc.isenabled()
    gc.disable()  # millions of small objects that live for one piece and form no cycles
    try:
        with Text(path, progress) as text:
            return Reading(text).trace()
    finally:
        if collecting:
            gc.enable()


class Reading:
    """One file on its way into tables."""

    def __init__(self, text: Text, tier: Callable[[Names], ForgivingTier] | None = None) -> None:
        """`tier`: makes what reads all events, for files in other words than Kineto's."""
        self.text = text
        self.window = Window(text)
        self.tables = Tables()
        self.forgiving = (tier or ForgivingTier)(self.tables.names)
        self.quick = self.forgiving if tier else QuickTier(self.tables.names)
        self.entries = 0
        self.warnings: list[str] = []

    def through(self) -> bool:
        """Show every event to the tier, for what it learns; whether the file's end was there."""
        enter(self.window)
        return self._events()

    def trace(self) -> Trace:
        """Read to the end."""
        keys, bare = enter(self.window)
        closed = self._events()
        behind = leave(self.window, bare=bare) if closed else None
        tables = self.tables.finish()
        if not tables:
            reason = foreign.without_rows(self.forgiving.phases, self.entries)
            raise UnreadableTrace(self.text.path, f"{reason}: {self.text.damage}" if self.text.damage else reason)
        if behind and behind.get("traceEvents"):
            self.warnings.append("holds traceEvents twice: only the first was read")
        self.warnings += _merged(tables)
        own = meta.said({**keys, **(behind or {})})
        return Trace(self._meta(own, truncated=behind is None), self.tables.names.texts, tables)

    def _events(self) -> bool:
        """Read the array; whether its end was there."""
        while True:
            piece = self.window.next()
            if piece is None:
                if self.window.ended:
                    return self._take(self.window.rest(), last=True).closed
                if self._too_long():
                    return True
            elif self._decoded(piece):
                self.window.advance()
            elif self._salvaged():
                return True

    def _decoded(self, piece: memoryview) -> bool:
        """Whether the piece, or the part of it that the window is left with, was whole events.

        Few events are unusual or damaged, and reading them costs five times as much: halving finds out where they are.
        """
        try:
            count, batches = self.quick.decode(piece)
        except (*OTHERWISE_VALID, *NOT_JSON):
            half = self.window.halve()
            if half is not None:
                return self._decoded(half)
            try:
                count, batches = self.forgiving.decode(piece)
            except NOT_JSON:
                return False
        self.entries += count
        self.tables.append(batches)
        return True

    def _salvaged(self) -> bool:
        """Take what is whole in a piece that is not JSON; whether the array ended in it."""
        found = self._take(self.window.piece_text(), last=False)
        if not found.closed:
            self.window.keep(found.used)
        return found.closed

    def _too_long(self) -> bool:
        """A window full of text without a cut: take what is whole, give up the rest; whether the array ended in it."""
        found = self._take(self.window.rest(), last=False)
        if not found.used:
            self.forgiving.skipped += 1
            self.warnings.append(f"an event is longer than {LONGEST >> 20} MiB and was left out")
            self.window.drop()
        elif not found.closed:
            self.window.begin += found.used
        return found.closed

    def _take(self, text: bytes, *, last: bool) -> Salvaged:
        """The whole events of text that is not JSON; the window moves on to the array's end where that is in it."""
        found = self.forgiving.salvage(text, last=last)
        self.entries += len(found.events)
        self.tables.append(self.forgiving.batches(found.events))
        if found.closed:
            self.window.begin += found.used
        return found

    def _meta(self, own: dict[str, Any], *, truncated: bool) -> TraceMeta:
        skipped = self.forgiving.skipped
        warnings = [*self.warnings, *self.tables.warnings()]
        if self.text.damage:
            warnings.append(self.text.damage)
        if truncated:
            warnings.append(f"the file's end is missing or damaged: {self.entries} whole entries were read")
        if skipped:
            warnings.append(f"{skipped} damaged entries were left out")
        return TraceMeta(
            path=self.text.path,
            **own,
            events=self.entries,
            skipped_events=skipped,
            truncated=truncated or bool(self.text.damage),
            unknown_categories=dict(self.forgiving.unknown),
            warnings=tuple(warnings),
        )


def _merged(tables: Mapping[type[Table], Table]) -> list[str]:
    """A file of several ranks whose processes are not named by them is one rank to this reader: said."""
    if HostEvents not in tables or RuntimeCalls not in tables:
        return []
    both = np.intersect1d(tables[HostEvents].ints("pid"), tables[RuntimeCalls].ints("pid"))
    if len(both) < 2:
        return []
    return [
        f"{len(both)} processes run operators and call a device: if they are ranks, name them `rank N` (process_name), or "
        "keep a file a rank; here they count as one"
    ]
