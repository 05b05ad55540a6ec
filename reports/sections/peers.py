"""What other tools would print for this run, and why it differs."""

from __future__ import annotations

from collections.abc import Sequence

from rankscope.analyzers.findings import Diagnosis
from rankscope.analyzers.measured import HtaFigures, Peers, TbPluginFigures, TraceLensFigures
from rankscope.reports.blocks import Block, Cell, Column, Grid, Quantity, Section, Text
from rankscope.reports.rank_time import labels

ORDER = 70
_TRACELENS = (
    "First to last device event that has a launch; memset is compute, copies on the device are memcpy, "
    "and waiting for other ranks is communication."
)
_HTA = (
    "The span of the device's work, so host time at its ends is left out; communication under compute is compute, "
    "waiting is non-compute. Without HTA's rounding of every event to whole microseconds."
)
_TB = (
    "Each nanosecond belongs to the first class of a fixed order that has an event then, the host's own calls included."
)
_TB_COLUMNS = ("kernel", "memcpy", "memset", "comm.", "runtime", "data loader", "CPU exec.", "other")


def build(diagnosis: Diagnosis) -> Section | None:
    """None where no device was recorded: none of these tools has a figure then."""
    label = labels(diagnosis.attribution)
    shown = [peer for peer in diagnosis.peers if peer.tracelens or peer.hta or peer.tb_plugin]
    if not shown:
        return None
    names = [_label(peer, label) for peer in shown]
    lens = ("total", "computation", "exposed comm.", "exposed memcpy", "busy", "idle")
    hta = ("span", "compute", "non-compute", "idle", "overlap")
    blocks = (
        *_table("TraceLens", _TRACELENS, lens, names, [_tracelens(peer) for peer in shown]),
        *_table("HTA", _HTA, hta, names, [_hta(peer) for peer in shown]),
        *_table("TensorBoard plugin", _TB, _TB_COLUMNS, names, [_tb(peer) for peer in shown]),
    )
    lead = "The same trace by other tools' own definitions, for whoever compares. The whole capture, not a step."
    return Section("peers", "Other tools' figures", blocks, lead, detail=True)


def _table(
    title: str, why: str, columns: Sequence[str], names: Sequence[str], rows: Sequence[tuple[Cell, ...]]
) -> tuple[Block, ...]:
    filled = tuple((name, *row) for name, row in zip(names, rows, strict=True) if row)
    if not filled:
        return ()
    heads = (Column("rank", False), *(Column(column) for column in columns))
    return Grid(title, heads, filled, brief=2), Text(why, "muted")


def _label(peer: Peers, label: dict[tuple[int, int], str]) -> str:
    return label.get((peer.rank, -1 if peer.device is None else peer.device), f"rank {peer.rank}")


def _times(*values: int) -> tuple[Cell, ...]:
    return tuple(Quantity(value, "ns") for value in values)


def _tracelens(peer: Peers) -> tuple[Cell, ...]:
    match peer.tracelens:
        case TraceLensFigures(total, computation, communication, memcpy, busy, idle):
            return _times(total, computation, communication, memcpy, busy, idle)
    return ()


def _hta(peer: Peers) -> tuple[Cell, ...]:
    match peer.hta:
        case HtaFigures(span, compute, non_compute, idle, overlap):
            return (*_times(span, compute, non_compute, idle), Quantity(overlap, "share"))
    return ()


def _tb(peer: Peers) -> tuple[Cell, ...]:
    match peer.tb_plugin:
        case TbPluginFigures(kernel, memcpy, memset, communication, runtime, loader, cpu, other):
            return _times(kernel, memcpy, memset, communication, runtime, loader, cpu, other)
    return ()
