"""Whole traces of a run that was loaded: for what its records are too small for."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from rankscope.analyzers.errors import BadSelection, UnreadableTrace
from rankscope.analyzers.loading import LoadOptions
from rankscope.analyzers.loading.discovery import discover, shown
from rankscope.analyzers.loading.worker import read_trace
from rankscope.analyzers.run import Run
from rankscope.analyzers.trace.model import Trace
from rankscope.analyzers.trace.readers.parts import file_of


def trace_of(run: Run, paths: Sequence[str], options: LoadOptions) -> Callable[[int], Trace]:
    """Reads one rank's trace, from the cache where it has it. `paths`: those that the run was loaded from.

    Its error is BadSelection for a rank that was not read, UnreadableTrace when its file has gone.
    """
    cache = options.cache()
    here = os.getcwd()
    places = {loaded.rank: loaded.path for loaded in run.ranks}

    def read(rank: int) -> Trace:
        if rank not in places:
            raise BadSelection(f"rank {rank} is not among the ranks that were read")
        path = os.path.join(here, places[rank])
        if not os.path.exists(file_of(path)):  # a name that is not text is kept as it is shown
            path = next((found for found in discover(paths).files if shown(found) == places[rank]), path)
        try:
            return read_trace(path, cache)
        except OSError as error:
            raise UnreadableTrace(places[rank], f"cannot be read ({error.strerror or error})") from error

    return read
