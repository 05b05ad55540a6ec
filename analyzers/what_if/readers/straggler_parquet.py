"""The per-operation parquet of ByteDance's straggler study (arXiv 2505.05713): one row an operation, times in seconds.

Columns: dp_rank, stage, rank, step, optype, start_ts, duration, seq_id. One row stands for the ranks of a tensor group. On
each worker the operations follow one another; sends and receives that begin together were asked for together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from rankscope.analyzers.errors import MissingExtra, UnreadableTrace
from rankscope.analyzers.what_if.job import Act, Job, Program, Worker

if TYPE_CHECKING:
    import pandas as pd

COLUMNS: Final = ("dp_rank", "stage", "rank", "step", "optype", "start_ts", "duration", "seq_id")
TRANSFERS: Final = {
    "forward-send": 1,
    "forward-recv": -1,
    "backward-send": -1,
    "backward-recv": 1,
}  # -> the other stage
OVER_DATA: Final = ("params-all-gather", "grads-reduce-scatter")  # all ranks of one stage
OVER_ENDS: Final = ("embedding-grads-all-reduce",)  # first and last stage of one data-parallel rank
OVER_ALL: Final = ("optimizer-clip-main-grad",)
MOST_ROWS: Final = 50_000_000


def sniff(path: str) -> bool:
    """Whether the file is parquet."""
    try:
        with open(path, "rb") as file:
            return file.read(4) == b"PAR1"
    except OSError:
        return False


def read(path: str) -> Job:
    """The job in such a file. UnreadableTrace for what is none, MissingExtra without pyarrow."""
    frame = _frame(path)
    order = np.lexsort(
        (frame["optype"].isin(TRANSFERS), frame["start_ts"], frame["stage"], frame["dp_rank"], frame["step"])
    )
    rows = frame.iloc[order].reset_index(drop=True)
    places = sorted(set(zip(rows["dp_rank"], rows["stage"], strict=True)))
    number = {place: i for i, place in enumerate(places)}
    worker = np.array([number[place] for place in zip(rows["dp_rank"], rows["stage"], strict=True)])
    kinds = sorted(set(rows["optype"]))
    start = np.rint(rows["start_ts"].to_numpy(np.float64) * 1e9).astype(np.int64)
    end = start + np.rint(rows["duration"].to_numpy(np.float64) * 1e9).astype(np.int64)
    members, meeting = _meetings(rows)
    ns = end - start
    for group in members:
        ns[group] = np.maximum(end[group] - start[group].max(), 0)
    kind = np.searchsorted(kinds, rows["optype"].to_numpy(str)).astype(np.int64)
    steps = rows["step"].to_numpy()
    return Job(
        workers=[Worker(f"data {dp}, stage {stage}", i, int(stage)) for i, (dp, stage) in enumerate(places)],
        kinds=kinds,
        kind=kind,
        worker=worker,
        ns=ns,
        ideal=_middle(kind, ns, np.where(meeting >= 0, 1, 0)),
        typical=_middle(kind, ns, np.ones_like(ns)),
        meeting=meeting,
        members=[group.tolist() for group in members],
        programs=_programs(steps, worker, start, meeting, len(places)),
        measured_ns={int(s): int(end[steps == s].max() - start[steps == s].min()) for s in np.unique(steps)},
        stages=int(rows["stage"].max()) + 1,
    )


def _frame(path: str) -> pd.DataFrame:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise MissingExtra("reading parquet", "pyarrow", "arrow") from None
    try:
        file = pq.ParquetFile(path)
        if not set(COLUMNS) <= set(file.schema_arrow.names):
            raise UnreadableTrace(path, f"is not a trace of operations: it needs columns {', '.join(COLUMNS)}")
        if file.metadata.num_rows > MOST_ROWS:
            raise UnreadableTrace(path, f"has more than {MOST_ROWS:,} rows")
        frame = file.read(columns=list(COLUMNS)).to_pandas()
    except (pa.ArrowException, OSError, ValueError) as error:
        raise UnreadableTrace(path, f"is no parquet that can be read ({type(error).__name__})") from None
    frame["optype"] = frame["optype"].astype(str)
    numbers = [column for column in COLUMNS if column != "optype"]
    if not len(frame) or not np.isfinite(frame[numbers].to_numpy(np.float64)).all():
        raise UnreadableTrace(path, "has no rows, or rows without numbers")
    result: pd.DataFrame = frame
    return result


def _middle(
    kind: npt.NDArray[np.int64], ns: npt.NDArray[np.int64], robust: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """By kind the median where any of it is `robust`, else the mean."""
    result = np.zeros_like(ns)
    for one in np.unique(kind):
        mine = kind == one
        middle = np.median if robust[mine].any() else np.mean
        result[mine] = round(float(middle(ns[mine])))
    return result


def _meetings(rows: pd.DataFrame) -> tuple[list[npt.NDArray[np.int64]], npt.NDArray[np.int64]]:
    """Rows that belong together, and the number of its meeting for each row; -1 where it has no partner."""
    found: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    columns = (rows[name].tolist() for name in ("step", "optype", "dp_rank", "stage", "seq_id"))
    for i, (step, kind, part, stage, seq) in enumerate(zip(*columns, strict=True)):
        if kind in TRANSFERS:
            other = stage + TRANSFERS[kind]
            way = kind.partition("-")[0]
            found[step, way, part, min(stage, other), max(stage, other), seq].append(i)
        elif kind in OVER_DATA:
            found[step, kind, stage, seq].append(i)
        elif kind in OVER_ENDS:
            found[step, kind, part, seq].append(i)
        elif kind in OVER_ALL:
            found[step, kind, seq].append(i)
    members = [np.array(group) for group in found.values() if len(group) > 1]
    meeting = np.full(len(rows), -1, np.int64)
    for number, group in enumerate(members):
        meeting[group] = number
    return members, meeting


def _programs(
    steps: npt.NDArray[Any], worker: npt.NDArray[Any], start: npt.NDArray[Any], meeting: npt.NDArray[Any], workers: int
) -> dict[int, Sequence[Program]]:
    """What each worker does in each step; rows are in order."""
    rows: dict[int, list[list[int]]] = defaultdict(lambda: [[] for _ in range(workers)])
    for i, (step, who) in enumerate(zip(steps.tolist(), worker.tolist(), strict=True)):
        rows[step][who].append(i)
    return {step: [list(_acts(mine, start, meeting)) for mine in by_worker] for step, by_worker in rows.items()}


def _acts(rows: Sequence[int], start: npt.NDArray[Any], meeting: npt.NDArray[Any]) -> Iterable[tuple[Act, int]]:
    """Meetings that begin at one moment are started together, and then needed together."""
    together: list[int] = []
    for row in [*rows, None]:
        if together and (row is None or meeting[row] < 0 or start[row] != start[together[0]]):
            yield from ((Act.START, one) for one in together)
            yield from ((Act.NEED, one) for one in together)
            together = []
        if row is not None and meeting[row] < 0:
            yield Act.OWN, row
        elif row is not None:
            together.append(row)
