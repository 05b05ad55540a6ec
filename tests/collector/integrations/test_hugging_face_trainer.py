"""The callback in a real `transformers.Trainer`: what is a step, what is logged, and what a failure does."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from integrated import left

transformers = pytest.importorskip("transformers", reason="transformers is not installed: make test-integrations")
pytest.importorskip("accelerate", reason="the Trainer needs accelerate: make test-integrations")
torch = pytest.importorskip("torch", reason="torch is not installed")

from rankscope.collector.integrations import transformers as integration  # noqa: E402


class Tiny(torch.nn.Module):  # type: ignore[misc, name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
        self.breaks_at: int | None = None
        self.calls = 0

    def forward(self, x: Any, labels: Any) -> dict[str, Any]:
        self.calls += 1
        if self.calls == self.breaks_at:
            raise ArithmeticError("planted")
        return {"loss": (self.layer(x).squeeze(-1) - labels).square().mean()}


def trainer(tmp_path: Path, model: Tiny, callback: Any, accumulated: int = 1, **more: Any) -> Any:
    rows = [{"x": torch.randn(4), "labels": torch.tensor(1.0)} for _ in range(24)]
    arguments = transformers.TrainingArguments(
        output_dir=str(tmp_path / "out"), per_device_train_batch_size=2, gradient_accumulation_steps=accumulated,
        num_train_epochs=1, logging_steps=1, save_strategy="no", report_to=[], use_cpu=True, disable_tqdm=True, **more,
    )  # fmt: skip
    return transformers.Trainer(model=model, args=arguments, train_dataset=rows, callbacks=[callback])


@pytest.mark.parametrize(("accumulated", "steps"), [(1, 12), (3, 4)])
def test_a_step_of_the_optimizer_is_one_step_however_many_batches_are_accumulated(
    tmp_path: Path, accumulated: int, steps: int
) -> None:
    callback = integration.RankscopeCallback(tmp_path / "run")
    trainer(tmp_path, Tiny(), callback, accumulated).train()
    (found,) = left(tmp_path / "run")
    assert [line["step"] for line in found.pulse] == list(range(steps))
    assert (found.manifest.ended, found.manifest.steps) == ("finished", steps)
    for line in found.pulse:
        assert {"forward", "backward", "optimizer"} <= set(line["stages"])
        assert sum(line["stages"].values()) == line["wall_ns"]
    assert found.failures() == []


def test_what_the_trainer_logs_is_in_the_line_of_the_step_after_it(tmp_path: Path) -> None:
    asked = trainer(tmp_path, Tiny(), integration.RankscopeCallback(tmp_path / "run"))
    asked.train()
    (found,) = left(tmp_path / "run")
    said = [entry["loss"] for entry in asked.state.log_history if "loss" in entry]
    assert len(said) == 12
    assert found.logged("loss") == [None, *said[:-1]]
    assert (
        found.logged("learning_rate")[1:] == [e["learning_rate"] for e in asked.state.log_history if "loss" in e][:-1]
    )


def test_an_exception_comes_through_and_training_can_begin_again(tmp_path: Path) -> None:
    model = Tiny()
    model.breaks_at = 4
    asked = trainer(tmp_path, model, integration.RankscopeCallback(tmp_path / "run"))
    with pytest.raises(ArithmeticError, match="planted"):
        asked.train()
    asked.train()
    broken, whole = left(tmp_path / "run")
    assert (broken.manifest.ended, broken.manifest.steps) == ("no end was told", 3)
    assert (whole.manifest.ended, whole.manifest.steps) == ("finished", 12)


def test_a_callback_that_fails_is_one_line_and_training_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(integration.RankscopeCallback):
        def _log(self, logs: Any) -> None:
            raise KeyError("planted")

    asked = trainer(tmp_path, Tiny(), Broken(tmp_path / "run"))
    with caplog.at_level(logging.WARNING, logger="rankscope"):
        asked.train()
    assert asked.state.global_step == 12
    (found,) = left(tmp_path / "run")
    assert found.manifest.steps == 12
    assert found.manifest.probes["transformers"] == "failed: KeyError: 'planted'"
    assert found.failures() == ["transformers"]
    assert len([r for r in caplog.records if r.name == "rankscope" and "transformers" in r.getMessage()]) == 1


def test_switched_off_the_callback_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANKSCOPE", "0")
    trainer(tmp_path, Tiny(), integration.RankscopeCallback(tmp_path / "run")).train()
    assert not (tmp_path / "run").exists()


def test_options_that_mean_nothing_are_said_before_training(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="mode"):
        integration.RankscopeCallback(tmp_path / "run", mode="loud")
