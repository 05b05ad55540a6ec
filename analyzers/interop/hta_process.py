"""Runs HTA in an interpreter of its own, which need not have rankscope: `python hta_process.py < request > answer`.

Request: {"files": {rank: path}, "last_step": bool}; answer: {"version", "breakdown": [...], "overlap": [...]}, HTA's rows
as it gives them. HTA's own messages go to standard error. Needs `traceinsight` (it imports as `hta`).
"""

from __future__ import annotations

import json
import os
import sys


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
    analysis = TraceAnalysis(
        trace_files=files, trace_dir=os.path.sep, include_last_profiler_step=bool(request["last_step"])
    )
    breakdown = analysis.get_temporal_breakdown(visualize=False)
    overlap = analysis.get_comm_comp_overlap(visualize=False)
    json.dump(
        {
            "version": version("traceinsight"),
            "breakdown": json.loads(breakdown.to_json(orient="records")),
            "overlap": json.loads(overlap.to_json(orient="records")),
        },
        answer,
    )
    answer.close()


if __name__ == "__main__":
    main()
