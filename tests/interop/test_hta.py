"""HTA's figures: reproduced to the last digit by its own arithmetic, and against HTA itself where it is installed."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from corpus import corpus

import rankscope
from rankscope.analyzers.errors import MissingExtra
from rankscope.analyzers.interop import hta
from rankscope.analyzers.interop.hta import Breakdown, Kernel, LaunchStats, RankFigures, counted_otherwise, last_step_us
from rankscope.analyzers.interop.hta_events import held, synchronisations
from rankscope.analyzers.interop.hta_figures import figures
from rankscope.analyzers.trace.model import Trace
from rankscope.analyzers.trace.readers import read
from rankscope.ui import cli
from rankscope.ui.commands import hta as command

Event = dict[str, Any]
PYTHON = os.environ.get("RANKSCOPE_HTA_PYTHON") or str(Path(__file__).parents[2] / ".venv-hta/bin/python")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    hook = sys.excepthook
    yield
    sys.excepthook = hook


def made(tmp_path: Path, *events: Event) -> Trace:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"schemaVersion": 1, "baseTimeNanoseconds": 10**18, "traceEvents": events}))
    return read(str(path))


def event(category: str, name: str, ts: float, dur: float, **more: Any) -> Event:
    """Times in microseconds."""
    return {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": 1, "ts": ts, "dur": dur, "args": {}} | more


def kernel(ts: float, dur: float, name: str = "gemm", category: str = "kernel", correlation: int = 0) -> Event:
    return event(category, name, ts, dur, pid=0, tid=7, args={"device": 0, "stream": 7, "correlation": correlation})


def breakdown(trace: Trace, *, last_step: bool, rounded: bool = True) -> Breakdown | None:
    return hta.breakdown(held(trace, last_step=last_step, rounded=rounded))


def computed(trace: Trace, *, last_step: bool = True) -> RankFigures:
    return hta.figures_of(trace, last_step=last_step, rounded=True)


def test_events_are_rounded_inwards(tmp_path: Path) -> None:
    trace = made(tmp_path, kernel(10.5, 2.0), kernel(20.25, 10.5))  # 11 to 12, 21 to 30
    assert breakdown(trace, last_step=False) == Breakdown(19.0, 10.0, 0.0, 9.0)
    assert breakdown(trace, last_step=False, rounded=False) == Breakdown(20.25, 12.5, 0.0, 7.75)


def test_an_event_without_a_whole_microsecond_counts_less_than_nothing(tmp_path: Path) -> None:
    trace = made(tmp_path, kernel(10.0, 5.0), kernel(20.25, 0.5), kernel(30.0, 5.0))
    assert breakdown(trace, last_step=False) == Breakdown(25.0, 9.0, 0.0, 16.0)


def test_copies_and_communication_are_no_compute(tmp_path: Path) -> None:
    copy = kernel(10.0, 10.0, "Memcpy HtoD (Pinned -> Device)", "gpu_memcpy")
    trace = made(tmp_path, kernel(0.0, 10.0), copy, kernel(20.0, 10.0, "ncclDevKernel_AllReduce_Sum_f32_RING_LL"))
    assert breakdown(trace, last_step=False) == Breakdown(30.0, 10.0, 20.0, 0.0)


def steps(*, last: int) -> list[Event]:
    events = []
    for step in range(last + 1):
        at = 100.0 * step
        events += [
            event("user_annotation", f"ProfilerStep#{step}", at, 100.0),
            event("cuda_runtime", "cudaLaunchKernel", at + 10, 1.0, args={"correlation": step + 1}),
            kernel(at + 20, 10.0, correlation=step + 1),
        ]
    return events


def test_the_last_step_is_left_out_unless_asked_for(tmp_path: Path) -> None:
    trace = made(tmp_path, *steps(last=2), kernel(290.0, 5.0, "unlaunched"))
    assert breakdown(trace, last_step=False) == Breakdown(110.0, 20.0, 0.0, 90.0)
    assert breakdown(trace, last_step=True) == Breakdown(210.0, 30.0, 0.0, 180.0)
    assert last_step_us(trace) == 10.0


def test_with_one_step_every_event_counts(tmp_path: Path) -> None:
    trace = made(tmp_path, *steps(last=0), kernel(90.0, 5.0, "unlaunched"))
    assert breakdown(trace, last_step=False) == Breakdown(75.0, 15.0, 0.0, 60.0)
    assert last_step_us(trace) == 0


def test_kernels_that_its_names_do_not_know_are_told(tmp_path: Path) -> None:
    trace = made(tmp_path, kernel(0.0, 10.0), kernel(20.0, 7.0, "nvshmem_put"), kernel(30.0, 5.0, "hip_gemm"))
    told = [(other.ours, other.theirs, other.name, other.total_ns) for other in counted_otherwise(trace)]
    assert told == [("communication", "compute", "nvshmem_put", 7000), ("compute", "communication", "hip_gemm", 5000)]


def test_without_device_events_there_is_nothing_to_compare(tmp_path: Path) -> None:
    trace = made(tmp_path, event("cpu_op", "aten::mm", 0.0, 5.0))
    assert breakdown(trace, last_step=False) is None and counted_otherwise(trace) == []


def test_exact_figures_are_those_of_the_report() -> None:
    run = rankscope.load(corpus("hta/nccl_data.json.gz"), cache=False, jobs=1)
    exact = breakdown(run.read(0), last_step=True, rounded=False)
    peer = run.diagnose().peers[0].hta
    assert exact is not None and peer is not None
    told = (exact.kernel_time_us, exact.compute_time_us, exact.non_compute_time_us, exact.idle_time_us)
    assert told == tuple(ns / 1000 for ns in (peer.span_ns, peer.compute_ns, peer.non_compute_ns, peer.idle_ns))


COMM = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"


def test_overlap_is_the_share_of_communication_under_compute(tmp_path: Path) -> None:
    assert computed(made(tmp_path, kernel(0.0, 10.0), kernel(5.0, 10.0, COMM))).overlap_percent == 50.0
    assert computed(made(tmp_path, kernel(0.0, 10.0))).overlap_percent is None


def test_kernel_types_say_what_ran_at_once(tmp_path: Path) -> None:
    copy = kernel(12.0, 10.0, "Memcpy HtoD (Pinned -> Device)", "gpu_memcpy")
    assert computed(made(tmp_path, kernel(0.0, 10.0), kernel(5.0, 10.0, COMM), copy)).kernel_types == {
        "COMPUTATION": 5.0,
        "COMPUTATION overlapping COMMUNICATION": 5.0,
        "COMMUNICATION": 2.0,
        "COMMUNICATION overlapping MEMORY": 3.0,
        "MEMORY": 7.0,
    }


def test_kernels_have_the_durations_that_rounding_left(tmp_path: Path) -> None:
    found = computed(made(tmp_path, kernel(0.0, 10.0), kernel(20.25, 0.5), kernel(30.0, 5.5, COMM)))
    assert found.kernels == {"gemm": Kernel(9.0, 10.0, -1.0, 4.5), COMM: Kernel(5.0, 5.0, 5.0, 5.0)}


def launch(ts: float, correlation: int, name: str = "cudaLaunchKernel") -> Event:
    return event("cuda_runtime", name, ts, 2.0, args={"correlation": correlation})


def test_idle_time_is_the_hosts_where_it_launched_after_the_end(tmp_path: Path) -> None:
    found = computed(
        made(
            tmp_path,
            *(launch(at, number) for number, at in enumerate((0.0, 1.0, 2.0, 80.0), 1)),
            kernel(5.0, 5.0, correlation=1),
            kernel(14.0, 6.0, correlation=2),  # after 4 us: kernel_wait
            kernel(60.0, 10.0, correlation=3),  # after 40 us: other
            kernel(90.0, 10.0, correlation=4),  # launched 10 us after the end
        )
    )
    assert found.idle == {"host_wait": 20.0, "kernel_wait": 4.0, "other": 40.0}


def test_launch_statistics_pair_calls_with_what_they_launched(tmp_path: Path) -> None:
    calls = [launch(0.0, 1), launch(10.0, 2), launch(20.0, 3, "cudaGraphLaunch")]
    work = [kernel(5.0, 3.0, correlation=1), kernel(11.0, 3.0, correlation=2), kernel(30.0, 3.0, correlation=3)]
    assert computed(made(tmp_path, *calls, *work)).launches == LaunchStats(2, 4.0, 6.0, 3.0, 3.0)


def test_synchronisations_with_a_stream_are_work_to_it_and_nothing_here(tmp_path: Path) -> None:
    trace = made(tmp_path, kernel(0.0, 1.0), kernel(5.0, 1.0, "Stream Wait Event", "cuda_sync"))
    assert synchronisations(trace) == 1
    assert breakdown(trace, last_step=False) == Breakdown(6.0, 1.0, 1.0, 4.0)
    assert breakdown(trace, last_step=False, rounded=False) == Breakdown(1.0, 1.0, 0.0, 0.0)


# ---- HTA itself ------------------------------------------------------------------------------------------------------

SAID = json.loads((Path(__file__).parent / "hta_0_6_1.json").read_text(encoding="utf-8"))
# Figures that its arithmetic does not give, and what the command says about it.
HOST_EVENTS = ({"breakdown", "kernel_types", "kernels"}, "names a stream, host events too")
NO_LAUNCH = ({"idle"}, "without a launch in the file")
UNLIKE = {
    "hta/benchmark_result_2869224_1695835535_trace.json.gz": ({"breakdown"}, "synchronisations on device tracks"),
    "hta/triton_example.json.gz": HOST_EVENTS,
    "tracelens/eager_trace.json.gz": HOST_EVENTS,
    "tracelens/h100_qwen1.5-0.5b.json.gz": ({"breakdown", "idle"}, "HTA stops with an AssertionError"),
    "tracelens/mi300_qwen1.5-0.5b.json.gz": NO_LAUNCH,
    "kineto-dlrm-8rank/worker1_step_12.1694128201556.pt.trace.json.gz": NO_LAUNCH,
    "kineto-dlrm-8rank/worker3_step_12.1694128201557.pt.trace.json.gz": NO_LAUNCH,
}


def printed(of: RankFigures) -> dict[str, Any]:
    """In the columns of `hta_0_6_1.json`."""
    assert of.breakdown is not None and of.launches is not None
    durations = [(kernel.sum_us, kernel.max_us, kernel.min_us) for kernel in of.kernels.values()]
    return {
        "breakdown": [getattr(of.breakdown, f"{name}_us") for name in SAID["columns"]["breakdown"]],
        "overlap_percent": None if of.overlap_percent is None else round(of.overlap_percent, 2),
        "kernel_types": [of.kernel_types.get(name, 0) for name in SAID["columns"]["kernel_types"]],
        "kernels": [len(durations), *(sum(column) for column in zip(*durations, strict=True))],
        "idle": [of.idle[name] for name in SAID["columns"]["idle"]],
        "launches": [getattr(of.launches, name) for name in of.launches.__slots__],
    }


@pytest.mark.parametrize("said", SAID["said"], ids=lambda said: f"{Path(said['file']).name[:40]}-{said['last_step']}")
def test_what_hta_printed_is_reproduced_to_the_last_digit(said: dict[str, Any]) -> None:
    trace = read(str(corpus(said["file"])))
    for last_step in said["last_step"]:
        ours = printed(computed(trace, last_step=last_step))
        unlike, reason = UNLIKE.get(said["file"], (set(), ""))
        assert {name for name in ours if ours[name] != said[name]} == unlike
        if "idle" in unlike:
            assert sum(ours["idle"]) == sum(said["idle"])
        own = RankFigures(None if said["breakdown"] is None else Breakdown(*said["breakdown"]))
        exact, rounded = (hta.figures_of(trace, last_step=last_step, rounded=by_hta) for by_hta in (False, True))
        told = list(command._reasons(trace, exact, rounded, own, last_step))
        assert not reason or any(reason in sentence for sentence in told)
        assert told or printed(exact) == ours, "a difference without a reason"


@pytest.mark.parametrize(
    "name",
    ["hta/rank0.json.gz", "hta/control.json.gz", "kineto-torchrec-4rank/late-rank", "tracelens/gpu_only_trace.json.gz"],
)
@pytest.mark.parametrize("last_step", [False, True])
def test_hta_says_what_its_arithmetic_gives(name: str, last_step: bool) -> None:
    if not Path(PYTHON).exists():
        pytest.skip("HTA is not installed here (make bench-hta, or RANKSCOPE_HTA_PYTHON)")
    run = rankscope.load(corpus(name), cache=False, jobs=1)
    said = figures({rank.rank: rank.path for rank in run.analysis.run.ranks}, last_step=last_step, python=PYTHON)
    assert not said.failures and set(said.ranks) == set(run.ranks)
    types: dict[str, float] = {}
    for rank, trace in run.traces():
        ours, theirs = computed(trace, last_step=last_step), said.ranks[rank]
        assert (theirs.breakdown, theirs.idle, theirs.launches) == (ours.breakdown, ours.idle, ours.launches)
        assert {name: kernel.sum_us for name, kernel in theirs.kernels.items()} == {
            name: kernel.sum_us for name, kernel in ours.kernels.items()
        }
        types = {kind: types.get(kind, 0) + ours.kernel_types.get(kind, 0) for kind in types | ours.kernel_types}
    assert said.kernel_types == types


# ---- the command -----------------------------------------------------------------------------------------------------

ANSWER = """#!{python}
import json, sys
ranks = [int(rank) for rank in json.load(sys.stdin)["files"]]
row = {{"kernel_time(us)": 19, "compute_time(us)": 10, "non_compute_time(us)": 0, "idle_time(us)": 9}}
kernel = {{"name": "gemm", "sum (us)": 10, "max (us)": 9, "min (us)": 1, "mean (us)": 5}}
print(json.dumps({{
    "version": "0.0",
    "failures": {{}},
    "get_temporal_breakdown": [row | {{"rank": rank}} for rank in ranks],
    "get_comm_comp_overlap": [{{"rank": rank, "comp_comm_overlap_pctg": None}} for rank in ranks],
    "get_gpu_kernel_breakdown": [
        [{{"kernel_type": "COMPUTATION", "sum": 10 * len(ranks)}}], [kernel | {{"rank": rank}} for rank in ranks]
    ],
    "get_idle_time_breakdown": [
        {{"rank": rank, "stream": n, "idle_category": "other", "idle_time": 3}} for rank in ranks for n in (1, 2)
    ],
    "get_cuda_kernel_launch_stats": {{rank: [2, 4.0, 6.0, 3.0, 3.0] for rank in ranks}},
}}))
"""


def stand_in(tmp_path: Path, text: str) -> str:
    path = tmp_path / "python"
    path.write_text(text.format(python=sys.executable))
    path.chmod(0o755)
    return str(path)


def test_figures_stand_side_by_side_with_the_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made(tmp_path, kernel(10.5, 2.0), kernel(20.25, 10.5))
    assert cli.main(["hta", str(tmp_path / "trace.json"), "--python", stand_in(tmp_path, ANSWER), "--no-cache"]) == 0
    out = capsys.readouterr().out
    row = next(line.split() for line in out.splitlines() if "idle_time_us" in line)
    assert row == ["idle_time_us", "7.750", "9.000", "9.000"]
    assert "idle becomes 1.250 us longer (16.1 %)" in out
    rows = [line.split() for line in out.splitlines()]
    assert ["gemm,", "us", "12.500", "10.000", "10.000"] in rows
    assert ["idle", "on", "streams:", "other,", "us", "0.000", "0.000", "6.000"] in rows
    assert ["COMPUTATION", "12.500", "10.000", "10.000"] in rows[-3:]


def test_every_reason_is_a_sentence_below_the_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    waiting = event("cuda_sync", "Stream Wait Event", 120.0, 1.0, pid=0, tid=7)
    graph = launch(101.0, 9, "cudaGraphLaunch")
    made(tmp_path, *steps(last=2), waiting, graph, kernel(130.0, 5.0, "nvshmem_put", correlation=9))
    options = ["--python", stand_in(tmp_path, ANSWER), "--no-cache"]
    assert cli.main(["hta", str(tmp_path / "trace.json"), *options]) == 0
    out = capsys.readouterr().out
    for reason in (
        "the last step is left out (10.000 us of device time)",
        "5.00 µs of communication here is compute there, most of it nvshmem_put",
        "1 device event launched by calls whose names HTA's launch statistics do not know",
        "HTA counts synchronisations on device tracks as work (the file has 1)",
    ):
        assert reason in out, out


def test_a_failing_hta_is_said_and_ours_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made(tmp_path, kernel(10.5, 2.0))
    broken = stand_in(tmp_path, "#!{python}\nraise IndexError('list index out of range')\n")
    assert cli.main(["hta", str(tmp_path / "trace.json"), "--python", broken, "--no-cache"]) == 0
    out = capsys.readouterr().out
    assert "HTA fails on this rank: IndexError: list index out of range" in out and "n/a" in out


def test_ranks_that_hta_can_read_are_not_lost_to_one_it_cannot(tmp_path: Path) -> None:
    refuses = ANSWER.replace("row = ", "assert 1 not in ranks, 'rank 1'\nrow = ")
    said = figures({0: "x", 1: "y"}, last_step=False, python=stand_in(tmp_path, refuses))
    assert said.ranks[0].breakdown == Breakdown(19.0, 10.0, 0.0, 9.0) and said.ranks[0].idle["other"] == 6.0
    assert 1 not in said.ranks and said.failures == {1: ("AssertionError: rank 1",)} and said.version == "0.0"
    assert said.kernel_types == {"COMPUTATION": 10.0}


def test_without_hta_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"rankscope\[hta\]"):
        figures({0: "x"}, last_step=False)


def test_an_interpreter_without_hta_is_told_from_one_that_fails(tmp_path: Path) -> None:
    lacking = stand_in(tmp_path, "#!{python}\nraise ModuleNotFoundError(\"No module named 'hta'\")\n")
    with pytest.raises(MissingExtra):
        figures({0: "x"}, last_step=False, python=lacking)
