"""Other tools' figures, by their own definitions, against what those tools print."""

from __future__ import annotations

import csv

import pytest
from corpus import corpus
from runs import diagnosed

TRACELENS = {
    "computation_time": "computation_ns",
    "exposed_comm_time": "exposed_comm_ns",
    "exposed_memcpy_time": "exposed_memcpy_ns",
    "busy_time": "busy_ns",
    "idle_time": "idle_ns",
    "total_time": "total_ns",
}


@pytest.mark.parametrize("name", ["gpu_only_trace", "h100_qwen1.5-0.5b", "mi300_qwen1.5-0.5b"])
def test_tracelens_figures_are_tracelens(name: str) -> None:
    table = corpus(f"tracelens/expected/{name}.gpu_timeline.csv")
    (peers,) = diagnosed([corpus(f"tracelens/{name}.json.gz")]).peers
    with table.open() as lines:
        expected = {row["type"]: float(row["time ms"]) for row in csv.DictReader(lines)}
    for word, field in TRACELENS.items():
        assert getattr(peers.tracelens, field) / 1e6 == pytest.approx(expected[word], rel=1e-3, abs=1e-6), word


def test_hta_figures_are_those_of_the_unrounded_union() -> None:
    (peers,) = diagnosed([corpus("hta/nccl_data.json.gz")]).peers
    assert peers.hta is not None
    assert (peers.hta.idle_ns, peers.hta.compute_ns) == (503_050_991, 115_655_847)
    assert peers.hta.span_ns == peers.hta.idle_ns + peers.hta.compute_ns + peers.hta.non_compute_ns


def test_peers_are_unknown_without_devices() -> None:
    (peers,) = diagnosed([corpus("gloo-4rank/ddp/rank0.json.gz")]).peers
    assert peers.device is peers.hta is peers.tracelens is peers.tb_plugin is None
