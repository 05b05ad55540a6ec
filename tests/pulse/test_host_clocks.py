"""Pings of the collector: the hosts' clocks without a trace, and beside what ends of collectives tell of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from runs_made import BEGIN, MS, Asked, Job, append

import rankscope
from rankscope.analyzers.findings import Diagnosis
from rankscope.analyzers.measured import ClockFit
from rankscope.collector.run_dir import CLOCK
from rankscope.reports.sections import clocks as section
from rankscope.simulator import Scenario, simulate
from rankscope.simulator.kineto import BASE_NS, ORIGIN_NS

SECOND, US = 10**9, 1_000
HOSTS = ("host-0", "host-0", "host-1", "host-1", "host-2", "host-2")
HALF_MINUTE = 30 * SECOND


def pulse_of(place: Path, asked: Mapping[int, Asked], hosts: Sequence[str] = HOSTS, **job: Any) -> Diagnosis:
    """The report of a run directory without traces. `asked`: by rank."""
    folders = Job(ranks=len(hosts), manifest={"host": lambda rank: hosts[rank]}, **job).write(place)
    for rank, rounds in asked.items():
        append(folders[rank], CLOCK, *rounds.lines())
    return rankscope.diagnose(place, cache=False, jobs=1)


def ahead(clock: ClockFit, at: int) -> float:
    """How far a clock is ahead at a time of its own, by the report."""
    assert clock.offset_ns is not None
    drift = 0.0 if clock.drift_ppb is None else clock.drift_ppb * 1e-9
    return clock.offset_ns + drift * (at - (clock.origin_ns or at))


# ---- without traces --------------------------------------------------------------------------------------------------


def test_offsets_of_hosts_are_shown_for_a_run_without_traces(tmp_path: Path) -> None:
    found = pulse_of(tmp_path, {2: Asked(7 * SECOND), 4: Asked(-3 * MS)})
    assert [c.method for c in found.clock] == ["shared_clock", "shared_clock", "pings", "pings", "pings", "pings"]
    # symmetric ways: exact but for the rounding of half a nanosecond
    assert [c.offset_ns for c in found.clock] == pytest.approx([0, 0, 7 * SECOND, 7 * SECOND, -3 * MS, -3 * MS], abs=1)
    # half the round trip of 100 us; at the first rounds, where the steps are, a line is known half as well as in the middle
    assert all(50 * US <= (c.residual_ns or 0) <= 2 * 50 * US + US for c in found.clock[2:])
    assert section.build(found) is not None


def test_a_drift_is_found_from_rounds_over_minutes(tmp_path: Path) -> None:
    found = pulse_of(tmp_path, {2: Asked(SECOND, 40e-6), 4: Asked()}).clock
    assert found[2].drift_ppb == pytest.approx(40_000, abs=10)
    at = BEGIN + SECOND + HALF_MINUTE
    assert ahead(found[2], at) == pytest.approx(SECOND + 40e-6 * HALF_MINUTE, abs=2 * US)  # drift over a ping's own second
    assert found[4].drift_ppb == pytest.approx(0, abs=10)


def test_ways_of_unlike_length_stay_within_the_residual(tmp_path: Path) -> None:
    found = pulse_of(tmp_path, {2: Asked(SECOND, there_ns=10 * US, back_ns=390 * US), 4: Asked(there_ns=300 * US)}).clock
    for clock, truth in ((found[2], SECOND), (found[4], 0)):
        assert clock.offset_ns is not None and clock.residual_ns is not None
        assert 50 * US < abs(clock.offset_ns - truth) <= clock.residual_ns


def test_many_rounds_of_one_way_are_no_better_than_one(tmp_path: Path) -> None:
    few = pulse_of(tmp_path / "few", {2: Asked(rounds=20)}).clock[2]
    many = pulse_of(tmp_path / "many", {2: Asked(rounds=900)}).clock[2]
    assert few.residual_ns is not None and many.residual_ns is not None
    assert many.residual_ns >= 50 * US and few.residual_ns >= 50 * US


def test_lost_rounds_cost_nothing_but_themselves(tmp_path: Path) -> None:
    lost = tuple(n for n in range(20) if n % 3)
    found = pulse_of(tmp_path, {2: Asked(SECOND, 40e-6, lost=lost), 4: Asked(lost=tuple(range(1, 20)))}).clock
    assert found[2].drift_ppb == pytest.approx(40_000, abs=10)
    # one round: no drift is stated, and what it may be in the twelve seconds of steps is in the residual
    assert found[4].drift_ppb is None and (found[4].residual_ns or 0) > 500 * US


def test_rounds_that_contradict_all_others_do_not_move_the_clock(tmp_path: Path) -> None:
    folders = Job(ranks=2, manifest={"host": lambda rank: f"host-{rank}"}).write(tmp_path)
    lines = Asked(SECOND, rounds=40).lines()
    lines[3] |= {"ahead_least_ns": 6 * SECOND, "ahead_most_ns": 6 * SECOND + 100 * US}
    lines[9] |= {"unix_ns": lines[9]["unix_ns"] + 10**16}
    append(folders[1], CLOCK, *lines)
    clock = rankscope.diagnose(tmp_path, cache=False, jobs=1).clock[1]
    # of 40 rounds, 2 pull with what one round is wrong by at most: 50 us a 20th of the rest
    assert clock.offset_ns == pytest.approx(SECOND, abs=20 * US) and (clock.residual_ns or 0) < 2.1 * 50 * US


def test_rounds_that_no_line_fits_are_known_less_well(tmp_path: Path) -> None:
    folders = Job(ranks=2, manifest={"host": lambda rank: f"host-{rank}"}).write(tmp_path)
    append(folders[1], CLOCK, *Asked(0, rounds=8).lines(), *Asked(MS, rounds=8, begin_ns=BEGIN + 480 * SECOND).lines())
    clock = rankscope.diagnose(tmp_path, cache=False, jobs=1).clock[1]
    assert clock.residual_ns is not None and clock.residual_ns > abs(clock.offset_ns or 0) and clock.residual_ns > 150 * US


def test_a_host_that_asked_nobody_stays_unknown(tmp_path: Path) -> None:
    found = pulse_of(tmp_path, {2: Asked(SECOND)}).clock
    assert [c.method for c in found[4:]] == ["not_identifiable"] * 2 and found[4].offset_ns is None


def test_one_host_and_no_pings_have_no_clocks_to_show(tmp_path: Path) -> None:
    assert pulse_of(tmp_path / "alone", {}, ("host-0",) * 3).clock == []
    same = pulse_of(tmp_path / "same", {1: Asked(rounds=3)}, ("host-0",) * 3).clock
    assert [(c.method, c.offset_ns) for c in same] == [("shared_clock", 0)] * 3


def test_hosts_are_compared_over_rank_0s_which_need_not_be_looked_at(tmp_path: Path) -> None:
    pulse_of(tmp_path, {2: Asked(7 * SECOND), 4: Asked(-3 * MS)})
    found = rankscope.diagnose(tmp_path, ranks=[2, 4], cache=False, jobs=1).clock
    assert [c.method for c in found] == ["reference", "pings"]
    assert found[1].offset_ns == pytest.approx(-7 * SECOND - 3 * MS, abs=1)
    assert (found[1].residual_ns or 0) >= 100 * US  # both ways


HOSTILE = [
    b'{"unix_ns":1e400}', b"[]", b'"ping"', b"\xff\xfe", b"{" * 5000, b'{"unix_ns":NaN,"ahead_least_ns":0}',
    json.dumps({**Asked().lines()[0], "unix_ns": -1}).encode(),
    json.dumps({**Asked().lines()[0], "unix_ns": 1 << 200}).encode(),
    json.dumps({**Asked().lines()[0], "ahead_least_ns": -(1 << 61), "ahead_most_ns": 1 << 61}).encode(),
    json.dumps({**Asked().lines()[0], "ahead_least_ns": (1 << 61), "ahead_most_ns": (1 << 61) + 1}).encode(),
    json.dumps({**Asked().lines()[0], "round_trip_ns": 0}).encode(),
    json.dumps({**Asked().lines()[0], "round_trip_ns": 1 << 61}).encode(),
    json.dumps({**Asked().lines()[0], "peer_rank": 3}).encode(),
    json.dumps({**Asked().lines()[0], "unix_ns": True}).encode(),
]  # fmt: skip


def test_lines_that_can_be_no_round_are_counted_and_left_out(tmp_path: Path) -> None:
    folders = Job(ranks=2, manifest={"host": lambda rank: f"host-{rank}"}).write(tmp_path)
    append(folders[1], CLOCK, *Asked(SECOND).lines())
    with (folders[1] / CLOCK).open("ab") as file:
        file.write(b"".join(line + b"\n" for line in HOSTILE) + b'{"unix_ns":')
    found = rankscope.diagnose(tmp_path, cache=False, jobs=1)
    assert found.clock[1].offset_ns == pytest.approx(SECOND, abs=1)
    assert any(f"clock.jsonl {len(HOSTILE)} lines are no record" in text for text in found.warnings)


@pytest.mark.parametrize("line", HOSTILE)
def test_a_file_of_nothing_else_is_no_file(tmp_path: Path, line: bytes) -> None:
    folders = Job(ranks=2, manifest={"host": lambda rank: f"host-{rank}"}).write(tmp_path)
    (folders[1] / CLOCK).write_bytes(line + b"\n")
    assert rankscope.diagnose(tmp_path, cache=False, jobs=1).clock == []


# ---- beside traces ---------------------------------------------------------------------------------------------------

APART = (0, 2 * SECOND, -SECOND)


def traced(place: Path, asked: Mapping[int, Asked], silent: Sequence[int] = ()) -> Diagnosis:
    """The report of a run directory with a window of each rank; `silent`: ranks whose traces hold no collective."""
    run = simulate(Scenario(ranks=6, ranks_per_host=2, steps=8, layers=3, clock_offsets_ns=APART))
    files = run.write(place.parent / "simulated")
    names = [json.loads(file.read_text())["host_name"] for file in files]
    folders = Job(ranks=6, manifest={"host": lambda rank: names[rank]}, begin_ns=BASE_NS + ORIGIN_NS).write(place)
    for rank, (folder, file) in enumerate(zip(folders, files, strict=True)):
        trace = json.loads(file.read_text())
        if rank in silent:
            trace["traceEvents"] = [e for e in trace["traceEvents"] if "nccl" not in str(e.get("name", "")).lower()]
        (folder / "traces").mkdir()
        (folder / "traces" / "window.json").write_text(json.dumps(trace))
        if rank in asked:
            append(folder, CLOCK, *asked[rank].lines())
    return rankscope.diagnose(place, cache=False, jobs=1)


def rounds(ahead_ns: int, **more: Any) -> Asked:
    """Rounds around the simulated steps."""
    return Asked(ahead_ns, begin_ns=BASE_NS + ORIGIN_NS - 600 * SECOND, **more)


def test_pings_join_hosts_that_share_no_collective(tmp_path: Path) -> None:
    alone = traced(tmp_path / "a" / "job", {}, silent=(4, 5))
    assert [c.method for c in alone.clock[4:]] == ["not_identifiable"] * 2
    found = traced(tmp_path / "b" / "job", {2: rounds(APART[1]), 4: rounds(APART[2])}, silent=(4, 5))
    assert [c.method for c in found.clock] == ["shared_clock", "shared_clock", "ends", "ends", "pings", "pings"]
    assert found.clock[4].offset_ns == pytest.approx(APART[2], abs=1)
    assert (found.clock[4].residual_ns or 0) >= 50 * US
    assert not any("Pings put" in text for text in found.warnings)


def test_pings_that_agree_with_ends_leave_the_offset_and_bound_the_residual(tmp_path: Path) -> None:
    alone = traced(tmp_path / "a" / "job", {})
    found = traced(tmp_path / "b" / "job", {2: rounds(APART[1], back_ns=90 * US), 4: rounds(APART[2])})
    assert [c.method for c in found.clock] == [c.method for c in alone.clock]
    for mine, theirs in zip(found.clock, alone.clock, strict=True):
        assert mine.offset_ns is not None and theirs.offset_ns is not None
        assert abs(mine.offset_ns - theirs.offset_ns) <= (theirs.residual_ns or 0) + 1
    # the ways of one round differ by 40 us: its middle is 20 us from the truth, which ends know to some microseconds
    assert found.clock[2].residual_ns == pytest.approx(20 * US, abs=(alone.clock[2].residual_ns or 0) + 1)
    assert not any("Pings put" in text for text in found.warnings)


def test_a_host_whose_pings_lie_is_named_and_its_ends_stand(tmp_path: Path) -> None:
    found = traced(tmp_path / "job", {2: rounds(APART[1] + 5 * MS), 4: rounds(APART[2])})
    assert [c.method for c in found.clock[2:]] == ["ends"] * 4
    assert found.clock[2].offset_ns == pytest.approx(APART[1], abs=50 * US)
    assert found.clock[2].residual_ns == pytest.approx(5 * MS, rel=0.02)
    assert (found.clock[4].residual_ns or 0) < 100 * US
    said = [text for text in found.warnings if "Pings put" in text]
    assert len(said) == 1 and "clock of ranks 2, 3 5.00 ms from" in said[0]
