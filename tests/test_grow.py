"""Benchmarks are as good as their traces: a grown one is a longer capture of the same job, not one capture twice."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from benchmarks.grow import Template, grow
from rankscope.simulator import Scenario, simulate

COPIES = 3
SIMULATION = simulate(Scenario(ranks=2, steps=2, layers=2))


def grown(tmp_path: Path, suffix: str = ".json", **options: int) -> list[dict]:
    template = Template.of(SIMULATION.traces[0].text())
    path = tmp_path / f"grown{suffix}"
    written = grow(template, path, COPIES, rank=1, world=2, steps=2, **options)
    trace = json.loads(path.read_text())
    assert trace["distributedInfo"]["rank"] == 1 and len(trace["traceEvents"]) == written
    return trace["traceEvents"]


def test_ids_stay_unique_and_join_as_in_the_source(tmp_path: Path) -> None:
    source = json.loads(SIMULATION.traces[0].text())["traceEvents"]
    events = grown(tmp_path)
    for key in ("correlation", "Ev Idx"):
        once = Counter(e["args"][key] for e in source if key in e.get("args", {}) and "ProfilerStep" not in e["name"])
        often = Counter(e["args"][key] for e in events if key in e.get("args", {}))
        assert len(often) == COPIES * len(once)
        assert Counter(often.values()) == Counter(value for value in once.values() for _ in range(COPIES))


def test_collectives_go_on_counting_so_that_ranks_still_meet(tmp_path: Path) -> None:
    seqs = [e["args"]["Seq"] for e in grown(tmp_path) if e.get("cat") == "kernel" and "Seq" in e["args"]]
    assert len(set(seqs)) == len(seqs) > 0


def test_copies_follow_each_other_without_overlap(tmp_path: Path) -> None:
    source = [e for e in json.loads(SIMULATION.traces[0].text())["traceEvents"] if e.get("cat") == "kernel"]
    kernels = [e for e in grown(tmp_path) if e.get("cat") == "kernel"]
    starts = [kernels[copy * len(source)]["ts"] for copy in range(COPIES)]
    assert starts[1] - starts[0] == pytest.approx(starts[2] - starts[1])
    assert starts[1] >= max(e["ts"] + e["dur"] for e in kernels[: len(source)])


def test_a_few_long_steps_cover_the_whole_capture(tmp_path: Path) -> None:
    events = grown(tmp_path)
    steps = [e for e in events if e["name"].startswith("ProfilerStep#")]
    calls = [e["ts"] for e in events if e.get("cat") == "cuda_runtime"]
    assert len(steps) == 2
    assert steps[0]["ts"] <= min(calls) and max(calls) <= steps[-1]["ts"] + steps[-1]["dur"]


def test_a_trace_in_another_layout_grows_the_same(tmp_path: Path) -> None:
    compact = Template.of(json.dumps(json.loads(SIMULATION.traces[0].text())))
    ours = Template.of(SIMULATION.traces[0].text())
    assert compact.events == ours.events
    assert sorted(compact.values.tolist()) == sorted(ours.values.tolist())
