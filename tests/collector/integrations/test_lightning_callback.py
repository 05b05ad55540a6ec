"""The callback in a real Lightning `Trainer`: accumulated batches, several optimizers, failures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from integrated import left

lightning = pytest.importorskip("lightning.pytorch", reason="lightning is not installed: make test-integrations")
torch = pytest.importorskip("torch", reason="torch is not installed")

from rankscope.collector.integrations import lightning as integration  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


class Tiny(lightning.LightningModule):  # type: ignore[misc, name-defined]
    def __init__(self, breaks_at: int | None = None) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
        self.breaks_at = breaks_at
        self.losses: list[float] = []

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        if batch_idx == self.breaks_at:
            raise ArithmeticError("planted")
        loss = self.layer(batch).square().mean()
        self.losses.append(float(loss.detach()))
        return loss

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        self.layer(batch)

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.01)


class TwoOptimizers(Tiny):
    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False

    def training_step(self, batch: Any, batch_idx: int) -> None:
        for optimizer in self.optimizers():
            loss = self.layer(batch).square().mean()
            optimizer.zero_grad()
            self.manual_backward(loss)
            optimizer.step()

    def configure_optimizers(self) -> Any:
        return [torch.optim.SGD(self.parameters(), lr=0.01), torch.optim.SGD(self.parameters(), lr=0.01)]


def fit(tmp_path: Path, model: Tiny, callback: Any, **more: Any) -> Any:
    asked = lightning.Trainer(
        max_epochs=1, accelerator="cpu", devices=1, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, callbacks=[callback],
        default_root_dir=str(tmp_path / "out"), **more,
    )  # fmt: skip
    loader = torch.utils.data.DataLoader(torch.randn(24, 4), batch_size=2)
    asked.fit(model, loader, torch.utils.data.DataLoader(torch.randn(4, 4), batch_size=2))
    return asked


@pytest.mark.parametrize(("accumulated", "steps"), [(1, 12), (3, 4)])
def test_accumulated_batches_are_one_step(tmp_path: Path, accumulated: int, steps: int) -> None:
    model = Tiny()
    fit(tmp_path, model, integration.RankscopeCallback(tmp_path / "run"), accumulate_grad_batches=accumulated)
    (found,) = left(tmp_path / "run")
    assert [line["step"] for line in found.pulse] == list(range(steps))
    assert (found.manifest.ended, found.manifest.steps) == ("finished", steps)
    assert all({"forward", "backward", "optimizer"} <= set(line["stages"]) for line in found.pulse)
    assert found.logged("loss") == pytest.approx(model.losses[accumulated - 1 :: accumulated])
    assert found.failures() == []


def test_two_optimizers_of_one_batch_end_one_step(tmp_path: Path) -> None:
    asked = fit(tmp_path, TwoOptimizers(), integration.RankscopeCallback(tmp_path / "run"))
    (found,) = left(tmp_path / "run")
    assert (asked.global_step, found.manifest.steps) == (24, 12)


def test_an_exception_is_how_the_run_ended(tmp_path: Path) -> None:
    with pytest.raises(ArithmeticError, match="planted"):
        fit(tmp_path, Tiny(breaks_at=3), integration.RankscopeCallback(tmp_path / "run"))
    (found,) = left(tmp_path / "run")
    assert found.manifest.steps == 3
    assert found.manifest.ended is not None and found.manifest.ended.startswith("exception: ArithmeticError")


def test_a_callback_of_lightning_that_fails_is_noted_and_training_goes_on(tmp_path: Path) -> None:
    class Broken(integration.RankscopeCallback):
        def _batch(self, trainer: Any, module: Any, outputs: Any) -> None:
            raise KeyError("planted")

    asked = fit(tmp_path, Tiny(), Broken(tmp_path / "run"))
    assert asked.global_step == 12
    (found,) = left(tmp_path / "run")
    assert found.manifest.probes["lightning"] == "failed: KeyError: 'planted'"
    assert found.failures() == ["lightning"]
