"""What Python users get: tables whose sums are the report's, columns that say what they mean, a picture in a notebook."""

from __future__ import annotations

import inspect
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from corpus import corpus

import rankscope
from rankscope.analyzers.errors import BadSelection, UnreadableTrace
from rankscope.analyzers.one_rank.operators import own_ns
from rankscope.analyzers.results.rows import FROM_ANALYSIS, FROM_DIAGNOSIS, RESULTS
from rankscope.run import Run
from rankscope.simulator import Scenario, faults, simulate

MS = 1_000_000
LATE = 2
SCENARIO = Scenario(
    ranks=4,
    steps=9,
    layers=4,
    ranks_per_host=2,
    clock_offsets_ns=(0, 3 * MS),
    faults=(faults.slow_compute(LATE, 2 * MS),),
)
METHODS = (*RESULTS, "operators")


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    simulate(SCENARIO).write(folder)
    return folder


@pytest.fixture(scope="module")
def run(traces: Path) -> Run:
    return rankscope.load(traces, cache=False, jobs=1)


def gloo() -> Run:
    return rankscope.load(corpus("gloo-4rank/fsdp_slow_rank"), cache=False, jobs=1)


# ---- the tables say what the report says -----------------------------------------------------------------------------


@pytest.mark.parametrize("cpu_only", [False, True])
def test_rows_are_those_of_the_report_and_add_up(run: Run, cpu_only: bool) -> None:
    run = gloo() if cpu_only else run
    frame, rows = run.attribution(), run.diagnose().attribution
    assert frame["window_ns"].tolist() == [row.window_ns for row in rows]
    assert frame["wait_ns"].tolist() == [row.communication.wait_ns for row in rows]
    assert frame["io_overlapped_ns"].tolist() == [row.io.overlapped_ns for row in rows]
    parents = ["compute_ns", "communication_ns", "io_ns", "host_ns", "idle_ns"]
    assert (frame[parents].sum(axis=1) == frame["window_ns"]).all()
    parts = frame.columns[frame.columns.get_loc("compute_ns") : frame.columns.get_loc("communication_overlapped_ns")]
    assert (frame[[part for part in parts if part not in parents]].sum(axis=1) == frame["window_ns"]).all()
    assert frame["device"].isna().all() == cpu_only
    assert set(frame["window"]) <= {"step", "before", "after", "run"}
    assert frame.loc[frame["window"] == "step", "step"].notna().all() and frame["step"].dtype == "Int64"


@pytest.mark.parametrize("cpu_only", [False, True])
def test_collectives_add_up_to_the_groups_and_to_who_waited(run: Run, cpu_only: bool) -> None:
    run = gloo() if cpu_only else run
    frame, report = run.collectives(), run.diagnose().collectives
    assert (
        frame["collective_id"].nunique() == report.matched and frame["collective_id"].isna().sum() == report.unmatched
    )
    assert frame["wait_ns"].sum() == sum(group.wait_ns for group in report.by_group) > 0
    assert frame["transfer_ns"].sum() == sum(group.transfer_ns for group in report.by_group)
    blamed = frame[~frame["dependency"]].groupby("rank")["exposed_wait_ns"].sum()
    assert {str(rank): ns for rank, ns in blamed.items()} == report.waited_ns
    last = frame.groupby("rank")["last"].sum()
    assert {str(rank): n for rank, n in last.items()} == report.last_arrivals


def test_arrivals_are_on_one_clock(run: Run) -> None:
    frame = run.collectives()
    first = frame[frame["collective_id"] == 0]
    assert len(first) == 4 and first["arrival_ns"].notna().all()
    latest = first.loc[first["arrival_ns"].idxmax()]
    assert latest["wait_ns"] == 0 and latest["last"]
    # hosts are 3 ms apart; on their own clocks nobody would have met
    assert np.ptp(first["arrival_ns"] + first["dur_ns"]) < 0.1 * MS < np.ptp(first["start_ns"] + first["dur_ns"])


def test_what_is_charged_is_what_was_waited_in_every_step(run: Run) -> None:
    frame = run.waits()
    by_step = frame.groupby("step", dropna=False)[["waited_ns", "caused_ns"]].sum()
    assert (by_step["waited_ns"] == by_step["caused_ns"]).all() and by_step["waited_ns"].sum() > 0
    assert frame.groupby("rank")["caused_ns"].sum().idxmax() == LATE
    pairs = run.waited_for()
    assert pairs["ns"].sum() == pytest.approx(frame["waited_ns"].sum(), abs=len(pairs))
    assert pairs["causer"].iloc[0] == LATE


def test_steps_name_who_held_them_up(run: Run) -> None:
    frame = run.steps()
    assert frame["step"].tolist() == sorted(frame["step"]) and len(frame) == SCENARIO.steps
    assert frame["judged"].tolist() == [False] + [True] * (SCENARIO.steps - 1)
    assert (frame["held_up_by"] == LATE).all()
    rows = run.attribution()
    for step in frame.itertuples():
        windows = rows.loc[rows["step"] == step.step, "window_ns"]
        assert (step.median_ns, step.least_ns, step.most_ns) == (windows.median(), windows.min(), windows.max())
        waited = run.waits().query("step == @step.step")["waited_ns"].sum()
        assert step.waited_ns == waited


def test_kernels_of_the_ranks_add_up_to_the_reports(run: Run) -> None:
    together = run.kernels().groupby(["name", "kind"])[["count", "total_ns"]].sum()
    told = run.diagnose().kernels
    assert len(told) == len(together)
    for kernel in told:
        assert tuple(together.loc[(kernel.name, kernel.kind)]) == (kernel.count, kernel.total_ns)


def test_findings_and_clocks_are_those_of_the_diagnosis(run: Run) -> None:
    diagnosis = run.diagnose()
    assert run.findings()["rule"].tolist() == [finding.rule for finding in diagnosis.findings]
    assert run.findings()["ranks"].iloc[0] == str(LATE)
    assert run.clocks()["offset_ns"].tolist() == [clock.offset_ns for clock in diagnosis.clock]


# ---- operators -------------------------------------------------------------------------------------------------------


def test_a_call_inside_another_counts_once_in_own_time() -> None:
    tid = np.array([1, 1, 1, 2, 1])
    start = np.array([0, 10, 15, 20, 50])
    dur = np.array([100, 30, 5, 7, 10])
    assert own_ns(tid, start, dur).tolist() == [60, 25, 5, 7, 10]


def test_calls_that_overlap_without_lying_inside_lose_only_what_they_share() -> None:
    assert own_ns(np.array([1, 1]), np.array([0, 60]), np.array([100, 80])).tolist() == [60, 80]


def test_operators_own_time_is_the_time_some_operator_ran() -> None:
    frame = gloo().operators()
    assert set(frame["rank"]) == {0, 1, 2, 3} and frame["device_ns"].isna().all()
    assert (frame["self_ns"] >= 0).all() and (frame["self_ns"] <= frame["total_ns"]).all()
    mm = frame[frame["name"] == "aten::mm"].set_index("rank")
    assert mm["self_ns"].idxmax() == LATE  # the slow rank computes


def test_device_time_goes_to_the_operator_that_launched_it() -> None:
    run = rankscope.load(corpus("hta/nccl_data.json.gz"), cache=False, jobs=1)
    frame, kernels = run.operators(), run.kernels()
    assert 0 < frame["device_ns"].sum() <= kernels["total_ns"].sum()
    assert frame["device_events"].sum() <= kernels["count"].sum()
    assert not frame.loc[frame["name"] == "aten::mm", "device_ns"].eq(0).any()


# ---- documentation, notebooks, mistakes ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", METHODS)
def test_every_table_is_a_method_whose_help_explains_its_columns(run: Run, name: str) -> None:
    frame = getattr(run, name)()
    assert isinstance(frame, pd.DataFrame)
    text = inspect.getdoc(getattr(Run, name)) or ""
    assert list(frame.attrs["columns"]) == list(frame.columns)
    for column, meaning in frame.attrs["columns"].items():
        assert meaning and f"{column}: {meaning}" in text


def test_every_result_is_made_by_one_function() -> None:
    assert set(RESULTS) == set(FROM_ANALYSIS) | set(FROM_DIAGNOSIS)


def test_a_notebook_shows_the_verdict_and_holds_the_report_apart(run: Run) -> None:
    shown = run._repr_html_()
    assert "Rank 2" in shown and 'sandbox="allow-scripts" srcdoc="' in shown
    inside = shown.split('srcdoc="')[1].split('"')[0]
    assert "<" not in inside and len(inside) > 10_000


def test_a_name_of_the_run_cannot_leave_its_text(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Run, "id", '<script>alert(1)</script>"')
    assert "<script>" not in run._repr_html_().split("<details>")[0]


def test_a_run_says_what_it_is(run: Run) -> None:
    assert "4 ranks" in repr(run) and "8 judged steps" in repr(run)


def test_whole_traces_are_read_from_wherever_the_process_has_gone(traces: Path, tmp_path: Path) -> None:
    before = os.getcwd()
    try:
        os.chdir(traces.parent)
        run = rankscope.load(traces.name, cache=False, jobs=1, ranks=[1])
        os.chdir(tmp_path)
        assert [rank for rank, _ in run.traces()] == [1]
    finally:
        os.chdir(before)
    with pytest.raises(BadSelection, match="rank 3 is not among"):
        run.read(3)


def test_a_file_that_has_gone_is_named(tmp_path: Path) -> None:
    paths = simulate(Scenario(ranks=1, steps=2, layers=1)).write(tmp_path)
    run = rankscope.load(tmp_path, cache=False, jobs=1)
    paths[0].unlink()
    with pytest.raises(UnreadableTrace, match=r"rank-0\.json"):
        run.operators()


def test_steps_asked_for_narrow_the_tables(traces: Path) -> None:
    run = rankscope.load(traces, cache=False, jobs=1, steps=[4, 5])
    assert run.steps()["step"].tolist() == [4, 5]
    assert set(run.waits()["step"].dropna()) == {4, 5}
    assert set(run.attribution()["step"].dropna()) == {4, 5}
