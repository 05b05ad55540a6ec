"""Where the host was at a moment: the innermost operator and the innermost module around it.

Memory events do not say which thread made them. Of all calls that were open the one that began last is taken, on
whatever thread: while autograd's thread works the training loop only waits for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from rankscope.analyzers.one_rank import host_kind
from rankscope.analyzers.trace.model import Trace
from rankscope.analyzers.trace.table import Ints
from rankscope.analyzers.trace.tables import HostEvents, PythonFunctions

MODULE: Final = "nn.Module: "


@dataclass(frozen=True, slots=True)
class Place:
    """None where nothing of the kind was open, or the recording does not say."""

    operator: str | None
    module: str | None


def place(trace: Trace, at_ns: int) -> Place:
    """Cost: one look over the calls of the file."""
    host, python = trace.get(HostEvents), trace.get(PythonFunctions)
    no_step = ~host_kind.where(host.name_id, trace.names, lambda name: host_kind.step_number(name) is not None)
    in_module = host_kind.where(python.name_id, trace.names, lambda name: name.startswith(MODULE))
    module = _innermost(python, np.flatnonzero(in_module), at_ns, trace)
    return Place(
        _innermost(host, np.flatnonzero(no_step), at_ns, trace), module.removeprefix(MODULE) if module else None
    )


def _innermost(table: HostEvents | PythonFunctions, rows: Ints, at_ns: int, trace: Trace) -> str | None:
    start, dur = table.start_ns[rows], table.dur_ns[rows]
    open_then = rows[(start <= at_ns) & (start + dur >= at_ns)]
    if not len(open_then):
        return None
    return trace.names[int(table.name_id[open_then[table.start_ns[open_then].argmax()]])]
