"""The quick tier: pieces of events of known categories and expected types."""

from __future__ import annotations

import functools
import re
from typing import Any, Union

import msgspec
import numpy as np

from rankscope.analyzers.trace.readers import exact_time
from rankscope.analyzers.trace.readers.categories import KINDS
from rankscope.analyzers.trace.readers.columns import Batch, Names
from rankscope.analyzers.trace.readers.records import Layout

FRACTION = re.compile(rb'"ts"\s*:\s*-?\d+\.')


class QuickTier:
    """Decodes pieces of events whose categories and types are the expected ones."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.digits = False

    def decode(self, piece: memoryview) -> tuple[int, list[Batch]]:
        """`[event, event, ...]` -> number of events and their rows.

        Raises msgspec.ValidationError, Surprise or OutOfRange for valid text it has no records for, msgspec.DecodeError
        or RecursionError for text that is not JSON.
        """
        decoder, layouts = _decoder(self.digits)
        events = decoder.decode(piece)
        groups: dict[Any, list[Any]] = {event: [] for event in layouts}
        append = {event: group.append for event, group in groups.items()}
        for event in events:
            append[type(event)](event)
        kept = [(layouts[event], group) for event, group in groups.items() if group and layouts[event].keys]
        batches = [layout.batch(group, self.names) for layout, group in kept]
        if not self.digits and any(_coarse(batch) for batch in batches) and FRACTION.search(piece):
            self.digits = True
            return self.decode(piece)
        return len(events), batches


def _coarse(batch: Batch) -> bool:
    """Whether a float64 holds these starts to the microsecond only, so that decimals would be lost."""
    starts = batch.columns.get("start_ns", batch.columns.get("at_ns"))
    return starts is not None and int(np.abs(starts).max()) >= int(exact_time.FINE_US) * 1000


@functools.cache
def _decoder(digits: bool) -> tuple[msgspec.json.Decoder[Any], dict[Any, Layout]]:
    layouts = [Layout(category, kind, digits) for category, kind in KINDS.items()]
    by_event = {layout.event: layout for layout in layouts}
    union: Any = Union[tuple(by_event)]  # noqa: UP007
    return msgspec.json.Decoder(list[union]), by_event
