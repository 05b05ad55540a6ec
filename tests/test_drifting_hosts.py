"""The same job on hosts of one clock, and on hosts whose clocks are ten seconds apart and drift: the same account."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from runs import analysed

import rankscope
from rankscope.analyzers.findings import Diagnosis
from rankscope.analyzers.results.collectives import collectives
from rankscope.simulator import Scenario, Simulation, faults, simulate
from rankscope.simulator.kineto import BASE_NS

MS, SECOND = 1_000_000, 1_000_000_000
JOB: dict[str, Any] = {"ranks": 6, "ranks_per_host": 2, "steps": 12, "layers": 4}
APART = {"clock_offsets_ns": (0, 10 * SECOND, -10 * SECOND), "clock_drifts_ppb": (0, 100_000, -100_000)}


def diagnosed(simulation: Simulation, folder: Path) -> Diagnosis:
    simulation.write(folder)
    return rankscope.diagnose(folder, cache=False, jobs=1)


@pytest.fixture(scope="module", params=["ddp", "fsdp", "hsdp"])
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Diagnosis, Diagnosis]:
    """The report of one job on one clock, and on three that drift."""
    job = {**JOB, "sharding": request.param, "faults": (faults.slow_compute(3, 4 * MS),)}
    runs = [simulate(Scenario(**job)), simulate(Scenario(**job, **APART))]
    one, three = (diagnosed(run, tmp_path_factory.mktemp("run")) for run in runs)
    return one, three


def test_every_part_of_every_row_is_as_long_but_for_the_drift(both: tuple[Diagnosis, Diagnosis]) -> None:
    for row, other in zip(*(d.attribution for d in both), strict=True):
        assert (row.rank, row.step) == (other.rank, other.step)
        for part in ("window_ns", "compute_ns", "communication_ns", "host_ns", "idle_ns"):
            # 100 ppm of its length, and a nanosecond for each rounded time of some dozen collectives and launches
            assert getattr(other, part) == pytest.approx(getattr(row, part), rel=110e-6, abs=300)
        for part in ("wait_ns", "transfer_ns"):
            mine, theirs = getattr(row.communication, part), getattr(other.communication, part)
            assert theirs == pytest.approx(mine, rel=110e-6, abs=300)


def test_the_same_ranks_are_charged_with_the_same_waiting(both: tuple[Diagnosis, Diagnosis]) -> None:
    one, three = (d.collectives for d in both)
    for rank, caused in one.caused_ns.items():
        # in common time, so no drift remains: some hundred waits, each end of which is rounded
        assert three.caused_ns[rank] == pytest.approx(caused, rel=2e-6, abs=500)
    assert sum(three.caused_ns.values()) == sum(three.waited_ns.values())
    assert one.last_arrivals == three.last_arrivals
    assert [f.rule for f in one_first(both[0])] == [f.rule for f in one_first(both[1])] == ["straggler-rank"]


def one_first(diagnosis: Diagnosis) -> list[Any]:
    return diagnosis.findings[:1]


def test_offset_and_drift_are_stated_with_the_time_they_hold_at(both: tuple[Diagnosis, Diagnosis]) -> None:
    for fit in both[1].clock[2:]:
        host = fit.rank // 2
        drift = APART["clock_drifts_ppb"][host]
        assert fit.origin_ns is not None and fit.drift_ppb is not None and fit.offset_ns is not None
        assert fit.drift_ppb == pytest.approx(drift, abs=200)  # of own nanoseconds: 100 ppm of 100 ppm less
        since = fit.origin_ns - BASE_NS - 864_000 * SECOND - APART["clock_offsets_ns"][host]
        assert fit.offset_ns == pytest.approx(APART["clock_offsets_ns"][host] + drift * since // 10**9, abs=50)
    assert {fit.method for fit in both[1].clock[2:]} == {"ends"}


def test_waits_are_those_of_the_truth_within_the_residual(tmp_path: Path) -> None:
    simulation = simulate(Scenario(**JOB, **APART, end_jitter_ns=30_000, faults=(faults.slow_compute(3, 2 * MS),)))
    analysis = analysed(simulation.write(tmp_path))
    residual = analysis.matches.clocks.residual_ns(range(6))
    assert 20_000 < residual < 45_000  # the 95th percentile of uniform jitter of 30 us is 28.5
    true: dict[tuple[int, int], int] = defaultdict(int)
    for meeting in simulation.truth.meetings:
        for rank, at in meeting.arrivals_ns.items():
            true[rank, meeting.seq] = max(meeting.arrivals_ns.values()) - at
    table = collectives(analysis)
    off = [abs(w - true[r, s]) for r, s, w in zip(table.rank, table.seq, table.wait_ns, strict=True)]
    assert sum(one <= residual for one in off) >= 0.95 * len(off)


def test_hosts_that_share_messages_alone_are_not_put_on_one_clock(tmp_path: Path) -> None:
    stages = {"ranks": 4, "ranks_per_host": 2, "pipeline": 2, "micro_batches": 4, "steps": 4, "layers": 2}
    found = []
    for name, clocks in (("plain", {}), ("apart", {"clock_offsets_ns": (0, 10 * SECOND)})):
        found.append(diagnosed(simulate(Scenario(**stages, **clocks)), tmp_path / name))
        said = [(fit.method, fit.offset_ns, fit.residual_ns) for fit in found[-1].clock]
        assert said == [("shared_clock", 0, 0)] * 2 + [("clock_free", None, None)] * 2
        assert any("No common clock" in warning for warning in found[-1].warnings)
    assert found[0].attribution == found[1].attribution and found[0].collectives == found[1].collectives
