"""The tables of one process's pulse. Times are integer nanoseconds, sizes bytes; absent: not known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from rankscope.analyzers.trace.table import Column, Table
from rankscope.collector.run_dir import STAGES

__all__ = ["STAGES", "STAGE_LONGER", "STAGE_WORDS", "Logged", "PingRounds", "PulseSteps", "Samples", "stage_names"]

STAGE_WORDS: Final = {
    "data": "data loading",
    "host_to_device": "copies to the device",
    "forward": "the forward pass",
    "backward": "the backward pass",
    "optimizer": "the optimizer",
    "checkpoint": "checkpoints",
    "other": "code outside all stages",
}

STAGE_LONGER: Final = {
    "data": "it waits longer for its data than the others",
    "host_to_device": "its copies to the device take longer than the others'",
    "forward": "its forward pass takes longer than the others'",
    "backward": "its backward pass takes longer than the others'",
    "optimizer": "its optimizer takes longer than the others'",
    "checkpoint": "its checkpoints take longer than the others'",
    "other": "it spends longer than the others outside all stages",
}


class PulseSteps(Table):
    """One row a step of one process, as it was written. Stages are parts of the training thread's time."""

    record = "with rankscope.profile('run') as p: ...  # p.step() once a step"
    step = Column(np.int64, "number of the step")
    begin_ns = Column(np.int64, "begin, UNIX nanoseconds on the host's clock", nullable=True)
    wall_ns = Column(np.int64, "from its begin to the next step's; where it was not written, the sum of its stages")
    data_ns = Column(np.int64, "in the loader's __next__", nullable=True)
    host_to_device_ns = Column(np.int64, "in copies to the device", nullable=True)
    forward_ns = Column(np.int64, "from the batch to the loss", nullable=True)
    backward_ns = Column(np.int64, "in torch.autograd.backward", nullable=True)
    optimizer_ns = Column(np.int64, "in the optimizer's step", nullable=True)
    checkpoint_ns = Column(np.int64, "saving or loading a checkpoint", nullable=True)
    other_ns = Column(np.int64, "outside all stages", nullable=True)
    data_wait_ns = Column(np.int64, "of data_ns, blocked in collectives", nullable=True)
    host_to_device_wait_ns = Column(np.int64, "of host_to_device_ns, blocked in collectives", nullable=True)
    forward_wait_ns = Column(np.int64, "of forward_ns, blocked in collectives", nullable=True)
    backward_wait_ns = Column(np.int64, "of backward_ns, blocked in collectives", nullable=True)
    optimizer_wait_ns = Column(np.int64, "of optimizer_ns, blocked in collectives", nullable=True)
    checkpoint_wait_ns = Column(np.int64, "of checkpoint_ns, blocked in collectives", nullable=True)
    other_wait_ns = Column(np.int64, "of other_ns, blocked in collectives", nullable=True)
    data_queued_ns = Column(np.int64, "of data_ns, ready to run, without a processor", nullable=True)
    host_to_device_queued_ns = Column(np.int64, "of host_to_device_ns, ready to run, without a processor", nullable=True)
    forward_queued_ns = Column(np.int64, "of forward_ns, ready to run, without a processor", nullable=True)
    backward_queued_ns = Column(np.int64, "of backward_ns, ready to run, without a processor", nullable=True)
    optimizer_queued_ns = Column(np.int64, "of optimizer_ns, ready to run, without a processor", nullable=True)
    checkpoint_queued_ns = Column(np.int64, "of checkpoint_ns, ready to run, without a processor", nullable=True)
    other_queued_ns = Column(np.int64, "of other_ns, ready to run, without a processor", nullable=True)
    data_device_ns = Column(np.int64, "between the device events around data_ns", nullable=True)
    host_to_device_device_ns = Column(np.int64, "between the device events around host_to_device_ns", nullable=True)
    forward_device_ns = Column(np.int64, "between the device events around forward_ns", nullable=True)
    backward_device_ns = Column(np.int64, "between the device events around backward_ns", nullable=True)
    optimizer_device_ns = Column(np.int64, "between the device events around optimizer_ns", nullable=True)
    checkpoint_device_ns = Column(np.int64, "between the device events around checkpoint_ns", nullable=True)
    other_device_ns = Column(np.int64, "between the device events around other_ns", nullable=True)
    gc_ns = Column(np.int64, "Python's garbage collection during the step", nullable=True)
    host_bytes = Column(np.int64, "resident memory of the process", nullable=True)
    device_bytes = Column(np.int64, "device memory that the allocator has given out", nullable=True)
    device_peak_bytes = Column(np.int64, "most of it so far", nullable=True)
    hooks_ns = Column(np.int64, "the collector's own time in this step", nullable=True)


class Logged(Table):
    """One row a value that the training code logged."""

    step = Column(np.int64, "number of the step")
    name = Column(object, "as the code called it: loss, grad_norm, tokens, ...")
    value = Column(np.float64, "not a number, or infinite, where the code said so")


class Samples(Table):
    """One row a figure of a probe that samples: what, when, how much. Names join nested keys by dots."""

    unix_ns = Column(np.int64, "when, on the host's clock", nullable=True)
    device = Column(np.int64, "index of the device, where the probe watches several", nullable=True)
    name = Column(object, "the figure, such as sm_clock_mhz")
    value = Column(np.float64, "the figure's value")


class PingRounds(Table):
    """One row a round of pings between the host of this rank and that of rank 0."""

    unix_ns = Column(np.int64, "when it ended, on the host's clock")
    ahead_ns = Column(np.int64, "by how much this host's clock is ahead of rank 0's, within half the round trip")
    round_trip_ns = Column(np.int64, "of the fastest ping")
    peer_host = Column(object, "the host of rank 0")


def stage_names(part: str = "") -> Sequence[str]:
    """The columns of PulseSteps by stage, in the order of a step; `part`: "", "wait", "queued", "device"."""
    return [f"{stage}_{part}_ns" if part else f"{stage}_ns" for stage in STAGES]
