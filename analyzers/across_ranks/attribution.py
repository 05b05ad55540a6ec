"""The rows of the report: every window's parts put together, adding up to the nanosecond."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from rankscope.analyzers.across_ranks.splits import LaneSplit
from rankscope.analyzers.measured import Communication, Compute, Host, Idle, InputOutput, Row, StepLabel
from rankscope.analyzers.one_rank.rank_record import RankRecord
from rankscope.analyzers.one_rank.row_times import PARTS, STEP, RowTimes, labels

UNEVEN: Final = 1.5  # a last window so many times the other ranks' is a profiler that stops or a process that leaves


def partial_rows(records: Sequence[RankRecord]) -> list[np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    """Which rows of each rank's RowTimes are partial: cut off by the capture, or its last and far longer than on the
    other ranks. A longer one before was a step, as when one rank saves a checkpoint.
    """
    tables = [record[RowTimes] for record in records]
    windows: dict[int, list[tuple[int, int, int]]] = {}
    result = [table.cut_off.astype(np.bool_).copy() for table in tables]
    for lane, table in enumerate(tables):
        for row in np.flatnonzero(table.label == STEP).tolist():
            length = int(table.end_ns[row] - table.begin_ns[row])
            windows.setdefault(int(table.step[row]), []).append((lane, row, length))
    for same in windows.values():
        lengths = np.array([length for _, _, length in same])
        # No window is UNEVEN times its peers' that is not so many times the shortest: in a healthy run nothing is compared.
        for position in np.flatnonzero(lengths > UNEVEN * lengths.min()).tolist():
            lane, row, _ = same[position]
            is_last = tables[lane].step[row] == tables[lane].step[tables[lane].label == STEP].max()
            if is_last and lengths[position] > UNEVEN * np.median(np.delete(lengths, position)):
                result[lane][row] = True
    return result


def rank_rows(
    rank: int, table: RowTimes, splits: Iterable[LaneSplit], partial: np.ndarray[tuple[int], np.dtype[np.bool_]]
) -> list[Row]:
    """One rank's rows: each device's windows in order of time, and before them the whole run's."""
    step_labels = labels(table)
    result = []
    for split in splits:
        columns = {name: table.columns[name][split.rows] for name in PARTS}
        columns |= {"wait_ns": split.wait, "transfer_ns": split.transfer, "unsplit_ns": split.unsplit}
        columns["window_ns"] = (table.end_ns - table.begin_ns)[split.rows]
        steps = np.flatnonzero(table.label[split.rows] == STEP)
        if len(steps):
            whole = {name: int(values[steps].sum()) for name, values in columns.items()}
            result.append(_row(rank, split.device, None, whole, partial=False))
        for i, row in enumerate(split.rows):
            parts = {name: int(values[i]) for name, values in columns.items()}
            result.append(_row(rank, split.device, step_labels[row], parts, partial=bool(partial[row])))
    return result


def _row(rank: int, device: int | None, step: StepLabel, p: dict[str, int], *, partial: bool) -> Row:
    compute = Compute(p["kernel_ns"], p["device_copy_ns"])
    communication = Communication(
        p["wait_ns"], p["transfer_ns"], p["unsplit_ns"], p["communication_overlapped_ns"], p["host_late_ns"]
    )
    io = InputOutput(
        p["data_loading_ns"], p["checkpoint_ns"], p["host_to_device_ns"], p["device_to_host_ns"], p["io_overlapped_ns"]
    )
    host = Host(p["launch_ns"], p["sync_ns"], p["allocator_ns"], p["gc_ns"], p["other_ns"])
    idle = Idle(p["kernel_gap_ns"], p["unexplained_ns"])
    return Row(
        rank=rank,
        device=device,
        step=step,
        window_ns=p["window_ns"],
        partial=partial,
        compute_ns=compute.kernel_ns + compute.device_copy_ns,
        compute=compute,
        communication_ns=communication.wait_ns + communication.transfer_ns + communication.unsplit_ns,
        communication=communication,
        io_ns=io.data_loading_ns + io.checkpoint_ns + io.host_to_device_ns + io.device_to_host_ns,
        io=io,
        host_ns=host.launch_ns + host.sync_ns + host.allocator_ns + host.gc_ns + host.other_ns,
        host=host,
        idle_ns=idle.kernel_gap_ns + idle.unexplained_ns,
        idle=idle,
    )
