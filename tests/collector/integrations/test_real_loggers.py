"""The same figures, read back out of what TensorBoard, W&B (offline) and MLflow wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from integrated import Left, left

import rankscope


def train(run_dir: Path, sink: Any) -> Left:
    with rankscope.profile(run_dir).add(sink) as p:
        for _ in range(4):
            p.step()
    (found,) = left(run_dir)
    assert found.manifest.probes[sink.name] == "on"
    return found


def seconds(found: Left) -> list[tuple[int, float]]:
    return [(line["step"], line["wall_ns"] / 1e9) for line in found.pulse]


def test_tensorboard_reads_the_steps_back(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="tensorboard is not installed: make test-integrations")
    pytest.importorskip("torch", reason="torch is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    from rankscope.collector.integrations.tensorboard import TensorBoard

    found = train(tmp_path / "run", TensorBoard(tmp_path / "tb"))
    events = EventAccumulator(str(tmp_path / "tb"))
    events.Reload()
    read = [(event.step, event.value) for event in events.Scalars("rankscope/step_s")]
    assert read == [(step, pytest.approx(value, rel=1e-6)) for step, value in seconds(found)]  # float32 there


def test_a_run_of_wandb_has_the_steps_on_their_own_axis(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wandb = pytest.importorskip("wandb", reason="wandb is not installed: make test-integrations")
    from rankscope.collector.integrations.wandb import WeightsAndBiases

    for name in ("WANDB_DIR", "WANDB_CACHE_DIR", "WANDB_CONFIG_DIR", "WANDB_DATA_DIR"):
        monkeypatch.setenv(name, str(tmp_path))
    with wandb.init(project="p", mode="offline", dir=str(tmp_path), settings=wandb.Settings(silent=True)) as run:
        found = train(tmp_path / "run", WeightsAndBiases(run, every=1))
        summary = dict(run.summary)
    last_step, last_s = seconds(found)[-1]
    assert (summary["rankscope/step"], summary["rankscope/step_s"]) == (last_step, last_s)
    assert list(tmp_path.rglob("*.wandb"))  # the offline run's file


def test_mlflow_reads_the_steps_back_from_its_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow", reason="mlflow is not installed: make test-integrations")
    from rankscope.collector.integrations.mlflow import MLflow

    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    uri = (tmp_path / "store").as_uri()
    client = mlflow.MlflowClient(uri)
    run_id = client.create_run(client.create_experiment("e")).info.run_id
    found = train(tmp_path / "run", MLflow(run_id, uri, every=1))
    history = client.get_metric_history(run_id, "rankscope/step_s")
    assert [(metric.step, metric.value) for metric in history] == seconds(found)
    assert [metric.timestamp for metric in history] == [line["begin_ns"] // 1_000_000 for line in found.pulse]
