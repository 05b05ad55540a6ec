"""Who comes late because another stage of its pipeline was late, and so is not the one to name."""

from __future__ import annotations

import numpy as np

from rankscope.analyzers.analysis import Analysis, Floats, typical
from rankscope.analyzers.causes import COVERS
from rankscope.analyzers.intervals import Bools


def late_for_a_stage(analysis: Analysis) -> Bools:
    """Per lane: it waited for other stages longer than the same stage of the other pipelines does, and by enough to
    explain how late it comes.
    """
    late = np.zeros(len(analysis.ranks), np.bool_)
    if len(analysis.pipelines) < 2:
        return late
    waited, delay = _waited_for_stages(analysis), typical(analysis.alone)
    for stage in zip(*analysis.pipelines, strict=True):
        for lane in stage:
            peers = [other for other in stage if other != lane]
            more = float(np.median(waited[lane] - np.median(waited[peers], axis=0)))
            late[lane] = delay[lane] > 0 and more >= COVERS * delay[lane]
    return late


def _waited_for_stages(analysis: Analysis) -> Floats:
    """Exposed waiting for other stages' sends, by (lane, usable step), in nanoseconds."""
    waited = np.zeros((len(analysis.ranks), len(analysis.columns) + 1))
    for lane, parts in enumerate(analysis.lanes):
        for part in parts:
            mine = analysis.splits.dependency[part.piece_record]
            step = analysis.step_of[part.piece_record[mine]]
            np.add.at(waited[lane], step, (part.piece_end - part.piece_start)[mine])
    return waited[:, analysis.usable]
