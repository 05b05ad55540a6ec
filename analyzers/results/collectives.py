"""The table of collectives that leaves rankscope: one row per rank that took part, with its arrival and its wait."""

from __future__ import annotations

import numpy as np

from rankscope.analyzers.analysis import Analysis
from rankscope.analyzers.intervals import Bools, Ints
from rankscope.analyzers.results.timeline import begins
from rankscope.analyzers.trace.table import Column, Table


class CollectiveTable(Table):
    """One row per rank and collective, matched or not, in order of rank and time. Waits and transfers may be hidden."""

    collective_id = Column(np.int64, "same on every rank of one collective; absent: no other rank's", nullable=True)
    rank = Column(np.int64, "rank")
    group = Column(object, "process group, as the trace describes it")
    collective = Column(object, "all_reduce, all_gather, ...")
    bytes = Column(np.int64, "larger of this rank's input and output", nullable=True)
    seq = Column(np.int64, "position in the group's order, where the trace has it", nullable=True)
    step = Column(np.int64, "ProfilerStep in which it begins on this rank; absent: in none", nullable=True)
    arrival_ns = Column(
        np.int64, "begin on the run's one clock, after the run's first event; absent: no common clock", nullable=True
    )
    start_ns = Column(np.int64, "begin on the rank's own clock, after its file's base")
    dur_ns = Column(np.int64, "duration: wait_ns + transfer_ns")
    wait_ns = Column(np.int64, "before the last rank arrived; absent: cannot be told", nullable=True)
    transfer_ns = Column(np.int64, "after the last rank arrived; absent: cannot be told", nullable=True)
    exposed_wait_ns = Column(np.int64, "the part of wait_ns that compute, transfer and other waits do not hide")
    last = Column(np.bool_, "this rank came last, by more than the clock's residual")
    dependency = Column(np.bool_, "a receiver's wait for its sender, as in a pipeline: nobody's fault")
    inferred = Column(np.bool_, "matched by the ends, for want of sequence numbers")


def collectives(analysis: Analysis) -> CollectiveTable:
    """Every record of every rank. Cost: linear in records."""
    matches, splits = analysis.matches, analysis.splits
    pool = matches.pool
    of, inferred, last = _matched(analysis)
    arrival, comparable = _on_one_clock(analysis)
    exposed = np.zeros(len(pool), np.int64)
    for split in (part for parts in analysis.lanes for part in parts):
        np.add.at(exposed, split.piece_record, split.piece_end - split.piece_start)
    column = analysis.step_of
    words = np.array(pool.words, object)[pool.word]
    for match in matches.found:
        if match.kind != "point_to_point":
            words[match.records] = match.word  # what a SendRecv kernel was, the other ranks tell
    numbers = np.array([*(0 if step is None else step for step in analysis.columns), 0], np.int64)
    in_step = (column < len(analysis.columns)) & (analysis.columns != (None,))
    dur, ranks = pool.end - pool.start, np.array(pool.ranks, np.int64)
    bases = np.array([record.meta.base_ns for record in analysis.records], np.int64)
    columns = {
        "collective_id": np.maximum(of, 0),
        "rank": ranks[pool.lane],
        "group": np.array([group.label for group in pool.groups], object)[pool.group],
        "collective": words,
        "bytes": pool.bytes,
        "seq": pool.seq,
        "step": numbers[column],
        "arrival_ns": arrival,
        "start_ns": pool.start - bases[pool.lane],
        "dur_ns": dur,
        "wait_ns": splits.wait,
        "transfer_ns": dur - splits.wait,
        "exposed_wait_ns": exposed,
        "last": last,
        "dependency": splits.dependency,
        "inferred": inferred,
    }
    valid = {
        "collective_id": of >= 0,
        "bytes": pool.has_bytes.astype(np.bool_),
        "seq": pool.has_seq.astype(np.bool_),
        "step": in_step,
        "arrival_ns": comparable,
        "wait_ns": splits.split,
        "transfer_ns": splits.split,
    }
    return CollectiveTable(columns, valid)


def _matched(analysis: Analysis) -> tuple[Ints, Bools, Bools]:
    """Per record: its collective (-1: none), whether that was inferred, whether the record came last."""
    matches, splits = analysis.matches, analysis.splits
    n = len(matches.pool)
    of, inferred, last = np.full(n, -1, np.int64), np.zeros(n, np.bool_), np.zeros(n, np.bool_)
    for index, match in enumerate(matches.found):
        records = match.records
        of[records], inferred[records] = index, match.inferred
        if match.kind == "symmetric" and len(records) > 1 and splits.split[records].all():
            order = records[np.argsort(splits.arrival[records], kind="stable")]
            lead = int(splits.arrival[order[-1]] - splits.arrival[order[-2]])
            last[order[-1]] = lead > matches.clocks.residual_ns(matches.pool.lane[records].tolist())
    return of, inferred, last


def _on_one_clock(analysis: Analysis) -> tuple[Ints, Bools]:
    """Begin of each record after the run's first event, and which of them can be compared with the lowest rank's."""
    pool, clocks = analysis.matches.pool, analysis.matches.clocks
    if not analysis.records:
        return np.empty(0, np.int64), np.empty(0, np.bool_)
    first, comparable = begins(analysis)
    arrival = clocks.common(pool.lane, pool.start) - int(first[comparable].min())
    return np.where(comparable[pool.lane], arrival, 0), comparable[pool.lane]
