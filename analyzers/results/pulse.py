"""The tables of a run directory: every step of every rank as it was recorded, and its stages summed up."""

from __future__ import annotations

import numpy as np

from rankscope.analyzers.analysis import Analysis
from rankscope.analyzers.pulse.report import pulse_report
from rankscope.analyzers.pulse.tables import PulseSteps
from rankscope.analyzers.results.made import table_of
from rankscope.analyzers.trace.table import Array, Bools, Column, Table

_RECORDED = tuple(name for name in PulseSteps.declared if name != "step")


class PulseTable(Table):
    """One row per rank and step of the pulse. Stages are times of the training thread; they add up to `wall_ns`."""

    rank = Column(np.int64, "rank")
    step = Column(np.int64, "number of the step, from 0 in each attempt")
    judged = Column(np.bool_, "the rules look at it: every rank has it, and it is not warm-up")
    own_ns = Column(np.int64, "the rank's own time: its stages without waits and without time in the run queue", nullable=True)
    alone_ns = Column(np.int64, "by how much it alone lengthens the group's step", nullable=True)
    begin_ns = PulseSteps.begin_ns
    wall_ns = PulseSteps.wall_ns
    data_ns = PulseSteps.data_ns
    host_to_device_ns = PulseSteps.host_to_device_ns
    forward_ns = PulseSteps.forward_ns
    backward_ns = PulseSteps.backward_ns
    optimizer_ns = PulseSteps.optimizer_ns
    checkpoint_ns = PulseSteps.checkpoint_ns
    other_ns = PulseSteps.other_ns
    data_wait_ns = PulseSteps.data_wait_ns
    host_to_device_wait_ns = PulseSteps.host_to_device_wait_ns
    forward_wait_ns = PulseSteps.forward_wait_ns
    backward_wait_ns = PulseSteps.backward_wait_ns
    optimizer_wait_ns = PulseSteps.optimizer_wait_ns
    checkpoint_wait_ns = PulseSteps.checkpoint_wait_ns
    other_wait_ns = PulseSteps.other_wait_ns
    data_queued_ns = PulseSteps.data_queued_ns
    host_to_device_queued_ns = PulseSteps.host_to_device_queued_ns
    forward_queued_ns = PulseSteps.forward_queued_ns
    backward_queued_ns = PulseSteps.backward_queued_ns
    optimizer_queued_ns = PulseSteps.optimizer_queued_ns
    checkpoint_queued_ns = PulseSteps.checkpoint_queued_ns
    other_queued_ns = PulseSteps.other_queued_ns
    data_device_ns = PulseSteps.data_device_ns
    host_to_device_device_ns = PulseSteps.host_to_device_device_ns
    forward_device_ns = PulseSteps.forward_device_ns
    backward_device_ns = PulseSteps.backward_device_ns
    optimizer_device_ns = PulseSteps.optimizer_device_ns
    checkpoint_device_ns = PulseSteps.checkpoint_device_ns
    other_device_ns = PulseSteps.other_device_ns
    gc_ns = PulseSteps.gc_ns
    host_bytes = PulseSteps.host_bytes
    device_bytes = PulseSteps.device_bytes
    device_peak_bytes = PulseSteps.device_peak_bytes
    hooks_ns = PulseSteps.hooks_ns


class StageTable(Table):
    """One row per rank and stage of the pulse, over the judged steps."""

    rank = Column(np.int64, "rank")
    stage = Column(object, "data, host_to_device, forward, backward, optimizer, checkpoint or other")
    median_ns = Column(np.int64, "of the training thread's time in it")
    wait_ns = Column(np.int64, "of that, blocked in collectives; median", nullable=True)
    queued_ns = Column(np.int64, "of that, ready to run without a processor; median", nullable=True)
    own_ns = Column(np.int64, "without either; median", nullable=True)
    device_ns = Column(np.int64, "between the device events around it; median", nullable=True)
    frontier_ns = Column(np.int64, "of the group's step that is this rank's stage; mean", nullable=True)
    beyond_ns = Column(np.int64, "of that, own time beyond the median of its peers'; mean", nullable=True)
    furthest = Column(np.int64, "judged steps in which the rank was furthest at the stage's end", nullable=True)


def pulse(analysis: Analysis) -> PulseTable:
    """Every recorded step of every rank; none without a run directory."""
    found = analysis.pulse
    if found is None:
        return PulseTable.empty()
    known = not found.doubt and len(found.usable) > 0
    judged = found.numbers[found.usable]
    parts: list[tuple[dict[str, Array], dict[str, Bools]]] = []
    for lane, process in enumerate(found.processes):
        steps = process.steps
        place = np.searchsorted(judged, steps.step)
        there = np.isin(steps.step, judged)
        columns: dict[str, Array] = {"rank": np.full(len(steps), process.rank), "step": steps.step, "judged": there}
        columns |= {name: steps.columns[name] for name in _RECORDED}
        valid = {name: steps.valid(name) for name in _RECORDED if PulseSteps.declared[name].nullable}
        for name, of in (("own_ns", found.local_ns.sum(axis=2)), ("alone_ns", found.frontier.alone_ns)) if known else ():
            columns[name] = np.zeros(len(steps), np.int64)
            columns[name][there] = np.rint(of[lane][place[there]]).astype(np.int64)
        for name in ("own_ns", "alone_ns"):
            columns.setdefault(name, np.zeros(len(steps), np.int64))
            valid[name] = there & known
        parts.append((columns, valid))
    declared = PulseTable.declared
    return PulseTable(
        {name: np.concatenate([columns[name] for columns, _ in parts]) for name in declared},
        {name: np.concatenate([valid[name] for _, valid in parts]) for name, c in declared.items() if c.nullable},
    )


def stages(analysis: Analysis) -> StageTable:
    """Stages by rank, in the order of a step."""
    if analysis.pulse is None:
        return StageTable.empty()
    report = pulse_report(analysis.pulse)
    moved = {(share.rank, share.stage): share for share in report.frontier}
    rows = []
    for stage in report.stages:
        share = moved.get((stage.rank, stage.stage))
        front = (share.ns, share.beyond_ns, share.steps) if share else (0, 0, 0) if report.frontier else (None, None, None)
        times = (stage.median_ns, stage.wait_ns, stage.queued_ns, stage.local_ns, stage.device_ns)
        rows.append([stage.rank, stage.stage, *times, *front])
    return table_of(StageTable, rows)
