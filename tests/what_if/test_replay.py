"""Replays by hand: two workers, their own work, and what they do together."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from corpus import corpus
from hypothesis import given
from hypothesis import strategies as st

from rankscope.analyzers.errors import UnreadableTrace
from rankscope.analyzers.what_if.job import Act, Job, Worker
from rankscope.analyzers.what_if.readers import straggler_parquet
from rankscope.analyzers.what_if.replay import Deadlock, replay
from rankscope.analyzers.what_if.slowdown import slowdown

OWN, START, NEED = Act


def two(first: list[int], second: list[int], transfer: int, *, overlapped: int = 0) -> Job:
    """Two workers that work, reduce together, and work again; `overlapped` is work done while the reduction runs."""
    ns = [*first, transfer, overlapped, *second, transfer, overlapped]
    ideal = np.array([round((sum(first) + sum(second) + 2 * overlapped) / 6)] * 8)
    ideal[[2, 6]] = transfer
    program = [(OWN, 0), (START, 2), (OWN, 3), (NEED, 2), (OWN, 1)]
    return Job(
        workers=[Worker("a", 0, 0), Worker("b", 1, 1)],
        kinds=["work", "reduce"],
        kind=np.array([0, 0, 1, 0, 0, 0, 1, 0]),
        worker=np.array([0, 0, 0, 0, 1, 1, 1, 1]),
        ns=np.array(ns),
        ideal=ideal,
        typical=ideal,
        meeting=np.array([-1, -1, 0, -1, -1, -1, 0, -1]),
        members=[[2, 6]],
        programs={5: [program, [(act, operation + 4) for act, operation in program]]},
        measured_ns={5: 1},
        stages=2,
    )


def test_a_meeting_ends_after_the_last_has_come() -> None:
    assert replay(two([10, 5], [30, 5], 7), two([10, 5], [30, 5], 7).ns) == {5: 30 + 7 + 5}


def test_work_beside_a_meeting_hides_it() -> None:
    job = two([10, 5], [10, 5], 7, overlapped=4)
    assert replay(job, job.ns) == {5: 10 + 7 + 5}
    job = two([10, 5], [10, 5], 7, overlapped=9)
    assert replay(job, job.ns) == {5: 10 + 9 + 5}


@given(*[st.integers(0, 10**6)] * 5, st.integers(0, 10**6))
def test_shortening_never_lengthens_a_step(a: int, b: int, c: int, d: int, transfer: int, less: int) -> None:
    job = two([a, b], [c, d], transfer)
    whole = replay(job, job.ns)[5]
    for i in range(len(job.ns)):
        shorter = job.ns.copy()
        shorter[i] -= min(less, int(shorter[i]))
        assert whole - (int(job.ns[i]) - int(shorter[i])) <= replay(job, shorter)[5] <= whole


def test_the_slow_worker_is_the_loss() -> None:
    found = slowdown(two([100, 0], [300, 0], 50))
    # in balance each piece of work takes 400 / 6 = 67, of which one hides the reduction
    assert (found.step_ns, found.ideal_ns) == (350, 3 * 67)
    assert found.slowdown == pytest.approx(350 / 201)
    assert found.slowest == ["b"] and found.by_worker["b"] > found.by_worker["a"]
    # with b in balance a comes last, at 100; the reduction takes 50, and b works another 67
    assert found.worker_share == pytest.approx((350 - 217) / (350 - 201))


def test_operations_that_do_not_fit_together_are_said() -> None:
    job = two([1, 1], [1, 1], 1)
    broken = Job(
        **{field: getattr(job, field) for field in job.__dataclass_fields__ if field != "programs"},
        programs={5: [job.programs[5][0], []]},
    )
    with pytest.raises(Deadlock, match="never have all their members"):
        replay(broken, broken.ns)


def test_published_answers_of_a_real_job_are_reproduced() -> None:
    # published with the trace: S 1.973, M_W 100.2 %, M_S -0.1 %, backward 1.5805, forward 1.3689 of the ideal step
    found = slowdown(straggler_parquet.read(str(corpus("bytedance-straggler/trace-AR.parquet"))))
    assert found.slowdown == pytest.approx(1.973, rel=0.005)
    assert found.worker_share == pytest.approx(1.002, abs=0.01)
    assert found.stage_share == pytest.approx(-0.0012, abs=0.01)
    assert found.replay_error_share < 0.02
    assert found.by_operation["backward-compute"] == pytest.approx(1.5805, rel=0.005)
    assert found.by_operation["forward-compute"] == pytest.approx(1.3689, rel=0.005)
    assert found.slowest == ["data 0, stage 0"]


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" + b"\0" * 100])
def test_what_is_no_parquet_is_said(content: bytes, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    (tmp_path / "a.parquet").write_bytes(content)
    with pytest.raises(UnreadableTrace, match="is no parquet"):
        straggler_parquet.read(str(tmp_path / "a.parquet"))


def test_parquet_of_something_else_is_said(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.table({"x": [1]}), tmp_path / "a.parquet")
    with pytest.raises(UnreadableTrace, match="needs columns"):
        straggler_parquet.read(str(tmp_path / "a.parquet"))
