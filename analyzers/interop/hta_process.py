"""Runs HTA in an interpreter of its own, which need not have rankscope: `python hta_process.py < request > answer`.

Request: {"files": {rank: path}, "last_step": bool}; answer: {"version", "failures": {figure: words}} and each figure that
did not fail, HTA's rows as it gives them. HTA's own messages go to standard error. Needs `traceinsight` (it imports as
`hta`).
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

# what HTA's figures end in on traces that it did not expect: each is asked for by itself, so that one costs no other
FAILURES = (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError)


def main() -> None:
    """Answer one request."""
    answer = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what HTA prints cannot get into the answer
    request = json.load(sys.stdin)
    here = os.path.dirname(os.path.realpath(__file__))
    sys.path = [place for place in sys.path if os.path.realpath(place) != here]  # where `hta` is ours

    from importlib.metadata import version

    from hta.trace_analysis import TraceAnalysis

    files = {int(rank): path for rank, path in request["files"].items()}
    hta = TraceAnalysis(trace_files=files, trace_dir=os.path.sep, include_last_profiler_step=bool(request["last_step"]))
    asked: dict[str, Callable[[], object]] = {
        "get_temporal_breakdown": lambda: _rows(hta.get_temporal_breakdown(visualize=False)),
        "get_comm_comp_overlap": lambda: _rows(hta.get_comm_comp_overlap(visualize=False)),
        "get_gpu_kernel_breakdown": lambda: [
            _rows(table) for table in hta.get_gpu_kernel_breakdown(visualize=False, num_kernels=1 << 30)
        ],
        "get_idle_time_breakdown": lambda: _rows(hta.get_idle_time_breakdown(ranks=list(files), visualize=False)[0]),
        "get_cuda_kernel_launch_stats": lambda: {
            rank: _launches(pairs)
            for rank, pairs in hta.get_cuda_kernel_launch_stats(ranks=list(files), visualize=False).items()
        },
    }
    told: dict[str, object] = {}
    failures: dict[str, str] = {}
    for figure, ask in asked.items():
        try:
            told[figure] = ask()
        except FAILURES as error:
            failures[figure] = f"{type(error).__name__}: {error}".rstrip(": ")
    json.dump({"version": version("traceinsight"), "failures": failures, **told}, answer)
    answer.close()


def _rows(table: pd.DataFrame) -> object:
    answer: object = json.loads(table.to_json(orient="records"))
    return answer


def _launches(pairs: pd.DataFrame) -> list[float]:
    delay = pairs["launch_delay"]
    sums = [float(pairs[name].sum()) for name in ("cpu_duration", "gpu_duration", "launch_delay")]
    return [len(pairs), *sums, float(delay.max()) if len(pairs) else 0.0]


if __name__ == "__main__":
    main()
