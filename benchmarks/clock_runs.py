"""Runs whose hosts' clocks are apart and drift, drawn by seed, and how well the clocks are found again.

A case is a pair of hosts at one of five moments between the first and the last collective that both recorded; its error
is that of the difference of their common times. Runs have equal votes, however many cases they have.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import numpy.typing as npt

from rankscope.analyzers.across_ranks.clock import Clocks
from rankscope.analyzers.across_ranks.collectives import match_collectives
from rankscope.analyzers.one_rank.collective_records import CollectiveRecords, Interned
from rankscope.analyzers.one_rank.rank_record import RankRecord, RecordFacts, rank_record
from rankscope.analyzers.trace.model import TraceMeta
from rankscope.analyzers.trace.readers import read
from rankscope.simulator import Scenario, Simulation, simulate
from rankscope.simulator.ends import BASE_NS, SECOND, Meetings, Met, RankEnds, Shape, Topology, meet
from rankscope.simulator.kineto import ORIGIN_NS

Floats = npt.NDArray[np.float64]
MOMENTS = 5


@dataclass(frozen=True, slots=True)
class Score:
    """One run. `error_ns[case, moment]`; by case, a pair of hosts: the stated residual, and whether they share ends."""

    what: str
    error_ns: Floats
    residual_ns: Floats
    direct: npt.NDArray[np.bool_]
    jitter_p95_ns: float
    apart: int  # pairs of hosts that nothing tells apart
    refused: int  # of those: said to be so
    wrongly_refused: int  # pairs that could be told

    @property
    def covered(self) -> npt.NDArray[np.bool_]:
        """By case and moment: whether the residual covers the error."""
        return np.asarray(self.error_ns <= self.residual_ns[:, None])


def drawn(seed: int, fewest: int, most: int) -> Meetings:
    """A run with so many collectives of each group, of 2 to 32 hosts, over 0.05 to 60 s; jitter 5 to 50 us."""
    rng = np.random.default_rng((seed, 9))
    topology: Topology = rng.choice(get_args(Topology))
    hosts = int(rng.choice([2, 3, 4, 8, 16, 32]))
    if topology in ("islands", "too_few"):
        hosts = max(hosts, 3)
    return Meetings(
        seed=seed,
        hosts=hosts,
        ranks_per_host=min(int(rng.choice([1, 2, 4, 8])), 64 // hosts),
        collectives=round(np.exp(rng.uniform(np.log(fewest), np.log(most)))),
        span_ns=round(np.exp(rng.uniform(np.log(0.05), np.log(60))) * SECOND),
        jitter_ns=int(rng.integers(5_000, 50_001)),
        topology=topology,
        shape=rng.choice(get_args(Shape)),
        lost=int(rng.choice([0, 3])),
    )


def record(rank: int, ends: RankEnds, *, numbered: bool) -> RankRecord:
    """A rank's record with nothing but its collectives. `numbered`: whether they carry `Seq`."""
    names, n = Interned(), len(ends.end_ns)
    members = np.array([names[",".join(map(str, group))] for group in ends.groups] or [0])
    labels = np.array([names[f"group {i}"] for i in range(len(ends.groups))] or [0])
    columns: dict[str, npt.NDArray[np.generic]] = {name: np.zeros(n) for name in CollectiveRecords.declared}
    columns |= {
        "start_ns": ends.start_ns - BASE_NS,
        "end_ns": ends.end_ns - BASE_NS,
        "collective_id": np.full(n, names["all_reduce"]),
        "members_id": members[ends.group],
        "group_id": labels[ends.group],
        "seq": ends.seq,
        "bytes": np.full(n, 1 << 20),
        "matchable": np.ones(n, np.bool_),
    }
    absent = np.zeros(n, np.bool_)
    masks = dict.fromkeys(("root", "peer", "group_size") if numbered else ("root", "peer", "group_size", "seq"), absent)
    table = CollectiveRecords(columns, masks).take(np.argsort(columns["start_ns"], kind="stable"))
    meta = TraceMeta(f"rank-{rank}", rank, None, "nccl", ends.host, BASE_NS, None, (), (), {}, n, 0, truncated=False)
    facts = RecordFacts(None, None, {}, 0, *[False] * 9, (), [])
    return RankRecord(meta, facts, names.texts, {CollectiveRecords: table})


def from_ends(run: Meetings, *, numbered: bool = True) -> Score:
    """A run whose ends alone are simulated, through matching and fitting."""
    met = meet(run)
    records = [record(rank, ends, numbered=numbered) for rank, ends in enumerate(met.ranks)]
    clocks = match_collectives(range(run.ranks), records).clocks
    members = {group for ends in met.ranks for group in ends.groups}
    hosts = [{rank // run.ranks_per_host for rank in group} for group in members]
    return scored(str(run), met, clocks, run.ranks_per_host, lambda a, b: any({a, b} <= group for group in hosts))


def from_files(seed: int) -> Score:
    """A run whose whole files are simulated, written and read: 2 to 4 hosts, 20 to 40 steps of a little model."""
    rng = np.random.default_rng((seed, 11))
    hosts = int(rng.integers(2, 5))
    scenario = Scenario(
        ranks=2 * hosts,
        ranks_per_host=2,
        steps=int(rng.integers(20, 41)),
        layers=2,
        layers_per_bucket=1,
        seed=seed,
        sharding=str(rng.choice(["ddp", "fsdp", "hsdp"])),  # type: ignore[arg-type]
        clock_offsets_ns=tuple(rng.integers(-10 * SECOND, 10 * SECOND + 1, hosts).tolist()),
        clock_drifts_ppb=tuple(rng.integers(-100_000, 100_001, hosts).tolist()),
        end_jitter_ns=int(rng.integers(5_000, 50_001)),
    )
    simulation = simulate(scenario)
    with tempfile.TemporaryDirectory() as folder:
        records = [rank_record(read(path)) for path in simulation.write(Path(folder))]
    clocks = match_collectives(range(scenario.ranks), records).clocks
    return scored(f"files {seed}", truth_of(simulation), clocks, 2, lambda a, b: True)


def truth_of(simulation: Simulation) -> Met:
    """What happened in a simulated run, as for ends alone."""
    scenario, per_host = simulation.scenario, simulation.scenario.ranks_per_host
    common = {(m.group, m.seq): m.end_ns for m in simulation.truth.meetings}
    begin: dict[int, list[int]] = {}
    end: dict[int, list[int]] = {}
    late = []
    for trace in simulation.traces:
        for work in trace.recorded.works:
            if work.arrival is not None and (work.arrival.group.name, work.arrival.seq) in common:
                begin.setdefault(trace.rank // per_host, []).append(work.start_ns)
                end.setdefault(trace.rank // per_host, []).append(work.end_ns)
                late.append(work.end_ns - common[work.arrival.group.name, work.arrival.seq])
    hosts = range(scenario.ranks // per_host)
    return Met(
        ranks=(),
        offset_ns=np.array([simulation.truth.clock_offsets_ns[h * per_host] + ORIGIN_NS for h in hosts]),
        drift_ppb=np.array([simulation.truth.clock_drifts_ppb[h * per_host] for h in hosts]),
        island=np.zeros(len(hosts), np.int64),
        begin_ns=np.array([min(begin[h]) for h in hosts]),
        end_ns=np.array([max(end[h]) for h in hosts]),
        jitter_p95_ns=float(np.quantile(np.abs(late), 0.95)),
    )


def scored(what: str, met: Met, clocks: Clocks, per_host: int, direct: Callable[[int, int], bool]) -> Score:
    """Hold the fitted clocks against the truth."""
    errors, residuals, shared = [], [], []
    apart = refused = wrongly = 0
    for a in range(len(met.island)):
        for b in range(a):
            lanes = a * per_host, b * per_host
            told = clocks.component(lanes[0]) == clocks.component(lanes[1])
            if met.island[a] != met.island[b]:
                apart, refused = apart + 1, refused + (not told and _said(clocks, lanes))
                continue
            if not told:
                wrongly += 1
                continue
            at = np.linspace(met.begin_ns[[a, b]].max(), met.end_ns[[a, b]].min(), MOMENTS).astype(np.int64)
            common = [clocks.common(np.full(MOMENTS, h * per_host), met.own_ns(h, at)) for h in (a, b)]
            errors.append(np.abs(common[0] - common[1]))
            residuals.append(clocks.residual_ns(lanes))
            shared.append(direct(a, b))
    return Score(
        what=what,
        error_ns=np.array(errors, np.float64).reshape(-1, MOMENTS),
        residual_ns=np.array(residuals, np.float64),
        direct=np.array(shared, np.bool_),
        jitter_p95_ns=met.jitter_p95_ns,
        apart=apart,
        refused=refused,
        wrongly_refused=wrongly,
    )


def _said(clocks: Clocks, lanes: tuple[int, int]) -> bool:
    """At most one of two hosts that cannot be compared may be comparable with the lowest rank's."""
    return any(clocks.method[lane] == "not_identifiable" for lane in lanes)


def summary(scores: Sequence[Score]) -> dict[str, Any]:
    """Figures of many runs; runs without a pair that can be told have no vote but for what was refused."""
    voting = [score for score in scores if score.error_ns.size]
    covered = [float(score.covered.mean()) for score in voting]
    ratios = [score.residual_ns / score.jitter_p95_ns for score in voting]
    direct = [ratio[score.direct] for ratio, score in zip(ratios, voting, strict=True)]
    return {
        "runs": len(scores),
        "error_p50_us": voted([score.error_ns for score in voting], 0.5) / 1e3,
        "error_p99_us": voted([score.error_ns for score in voting], 0.99) / 1e3,
        "error_p99_us_all_cases": float(np.quantile(np.concatenate([s.error_ns.ravel() for s in voting]), 0.99)) / 1e3,
        "covered_share": float(np.mean(covered)),
        "covered_interval": wilson(float(np.mean(covered)), len(covered)),
        "covered_share_all_cases": float(np.concatenate([score.covered.ravel() for score in voting]).mean()),
        "ratio_p50": voted(ratios, 0.5),
        "ratio_p99": voted(ratios, 0.99),
        "ratio_largest": float(max(r.max() for r in ratios)),
        "ratio_largest_sharing": float(max(r.max(initial=0.0) for r in direct)),
        "pairs_apart": sum(score.apart for score in scores),
        "pairs_refused": sum(score.refused for score in scores),
        "pairs_wrongly_refused": sum(score.wrongly_refused for score in scores),
    }


def voted(values: Iterable[Floats], share: float) -> float:
    """A quantile over the cases of all runs, each run with one vote."""
    kept = [v.ravel() for v in values]
    every = np.concatenate(kept)
    weight = np.concatenate([np.full(v.size, 1 / v.size) for v in kept])
    order = np.argsort(every, kind="stable")
    up_to = np.cumsum(weight[order]) / weight.sum()
    return float(every[order][min(int(np.searchsorted(up_to, share)), len(every) - 1)])


def wilson(share: float, n: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share among n runs (each counted once: cases of one run hang together)."""
    z = 1.96
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * float(np.sqrt(share * (1 - share) / n + z * z / (4 * n * n)))
    return max(0.0, middle - half), min(1.0, middle + half)


def wider(run: Meetings) -> Meetings:
    """The same with normal jitter whose standard deviation, not 95th percentile, is the run's 5 to 50 us."""
    return replace(run, shape="normal", jitter_ns=round(1.96 * run.jitter_ns))
