"""The tables that leave rankscope: what Python, CSV and Parquet users get, each column with its meaning."""

from __future__ import annotations

import numpy as np

from rankscope.analyzers.one_rank.row_times import KernelTotals, RowTimes
from rankscope.analyzers.trace.table import Column, Table


class AttributionTable(Table):
    """Where the time went: one row per rank, device and window. The five parents add up to `window_ns`, exactly."""

    rank = Column(np.int64, "rank")
    device = Column(np.int64, "device; absent on a CPU-only rank", nullable=True)
    window = Column(object, "step, before, after, or run: the whole run, the sum of its steps where the host marks any")
    step = Column(np.int64, "ProfilerStep number, where the window is a step", nullable=True)
    partial = Column(np.bool_, "cut off by the capture, or last and far longer than on other ranks: kept out of the rules")
    window_ns = Column(np.int64, "length of the window")
    compute_ns = Column(np.int64, "kernel_ns + device_copy_ns")
    kernel_ns = RowTimes.kernel_ns
    device_copy_ns = RowTimes.device_copy_ns
    communication_ns = Column(np.int64, "wait_ns + transfer_ns + unsplit_ns")
    wait_ns = Column(np.int64, "exposed, before the last rank arrived")
    transfer_ns = Column(np.int64, "exposed, after the last rank arrived")
    unsplit_ns = Column(np.int64, "exposed, without a peer's record")
    io_ns = Column(np.int64, "data_loading_ns + checkpoint_ns + host_to_device_ns + device_to_host_ns")
    data_loading_ns = RowTimes.data_loading_ns
    checkpoint_ns = RowTimes.checkpoint_ns
    host_to_device_ns = RowTimes.host_to_device_ns
    device_to_host_ns = RowTimes.device_to_host_ns
    host_ns = Column(np.int64, "launch_ns + sync_ns + allocator_ns + gc_ns + other_ns")
    launch_ns = RowTimes.launch_ns
    sync_ns = RowTimes.sync_ns
    allocator_ns = RowTimes.allocator_ns
    gc_ns = RowTimes.gc_ns
    other_ns = RowTimes.other_ns
    idle_ns = Column(np.int64, "kernel_gap_ns + unexplained_ns")
    kernel_gap_ns = RowTimes.kernel_gap_ns
    unexplained_ns = RowTimes.unexplained_ns
    communication_overlapped_ns = RowTimes.communication_overlapped_ns
    host_late_ns = RowTimes.host_late_ns
    io_overlapped_ns = RowTimes.io_overlapped_ns


class StepTable(Table):
    """One row per ProfilerStep, over the ranks that recorded it whole."""

    step = Column(np.int64, "ProfilerStep number")
    judged = Column(np.bool_, "the rules look at it: whole, and not the first where two others remain")
    rows = Column(np.int64, "ranks and devices that recorded it whole")
    partial_rows = Column(np.int64, "ranks and devices on which it is partial")
    median_ns = Column(np.float64, "length of its window, median over rows", nullable=True)
    least_ns = Column(np.int64, "shortest window", nullable=True)
    most_ns = Column(np.int64, "longest window", nullable=True)
    compute_ns = Column(np.float64, "mean over rows", nullable=True)
    communication_ns = Column(np.float64, "exposed, mean over rows", nullable=True)
    io_ns = Column(np.float64, "mean over rows", nullable=True)
    host_ns = Column(np.float64, "mean over rows", nullable=True)
    idle_ns = Column(np.float64, "mean over rows", nullable=True)
    waited_ns = Column(np.int64, "rank-time: exposed waiting for other ranks, all ranks together")
    held_up_by = Column(np.int64, "rank charged with most of that waiting", nullable=True)
    caused_ns = Column(np.int64, "rank-time charged to that rank")


class WaitTable(Table):
    """Who waited and who made others wait: one row per rank and step. Charged equals waited, to the nanosecond."""

    rank = Column(np.int64, "rank")
    step = Column(np.int64, "ProfilerStep number; absent: outside every step", nullable=True)
    waited_ns = Column(np.int64, "exposed waiting of this rank for others")
    caused_ns = Column(np.int64, "rank-time: others' exposed waiting charged to this rank")
    alone_ns = Column(np.int64, "wall time that this rank alone cost the others")


class WaitedForTable(Table):
    """Who waited for whom, over the whole capture; pairs that share no waiting are left out."""

    waiter = Column(np.int64, "rank that waited")
    causer = Column(np.int64, "rank that is charged with it")
    ns = Column(np.int64, "exposed waiting, rounded to the nanosecond")


class TrafficTable(Table):
    """All matched collectives of one group, name and size. Times are rank-time: all members together."""

    group = Column(object, "process group, as the trace describes it")
    ranks = Column(object, "its members, comma-separated")
    collective = Column(object, "all_reduce, all_gather, ...")
    bytes = Column(np.int64, "larger of one rank's input and output", nullable=True)
    count = Column(np.int64, "collectives")
    wait_ns = Column(np.int64, "before the last member arrived, exposed or hidden")
    transfer_ns = Column(np.int64, "after the last member arrived, exposed or hidden")
    bus_bytes_per_s = Column(np.float64, "bus bandwidth while bytes move, waiting left out", nullable=True)
    imbalance = Column(np.float64, "all-to-all-v: most bytes over the mean", nullable=True)


class KernelTable(Table):
    """All device events of one name and kind on one rank. A CPU-only rank has none."""

    rank = Column(np.int64, "rank")
    name = Column(object, "kernel or copy")
    kind = Column(object, "compute, communication, device_copy, host_to_device or device_to_host")
    count = KernelTotals.count
    total_ns = KernelTotals.total_ns
    mean_ns = Column(np.float64, "total_ns / count")
    min_ns = KernelTotals.min_ns
    max_ns = KernelTotals.max_ns


class ClockTable(Table):
    """How far each rank's clock is ahead: common time = own time - offset_ns - drift x (own time - origin_ns)."""

    rank = Column(np.int64, "rank")
    host = Column(object, "host name, where the trace says it", nullable=True)
    offset_ns = Column(np.int64, "absent: not identifiable", nullable=True)
    drift_ppb = Column(np.float64, "parts per billion; absent: none, or the run is too short to tell", nullable=True)
    residual_ns = Column(np.int64, "no cross-rank difference smaller than this is believed", nullable=True)
    method = Column(object, "reference, shared_clock, ends, pings, clock_free or not_identifiable")
    origin_ns = Column(np.int64, "own UNIX time at which offset_ns holds; absent: at any", nullable=True)


class FindingTable(Table):
    """The findings in order of cost. Costs overlap: they rank and never add."""

    rule = Column(object, "id of the rule; `rankscope rules ID` explains it")
    kind = Column(object, "time, risk or validity")
    severity = Column(object, "note, warning or critical")
    message = Column(object, "one sentence with the numbers in it")
    ranks = Column(object, "ranks it names, comma-separated; empty: no particular rank")
    steps = Column(object, "steps it was seen in, comma-separated")
    cost_ns = Column(np.int64, "wall time a step; absent: no time can be told", nullable=True)
    cause = Column(object, "of a straggler: compute, data, host or unknown", nullable=True)
    confidence = Column(np.float64, "0 to 1")
    advice = Column(object, "what to do")
