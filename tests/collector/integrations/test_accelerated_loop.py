"""A real loop of Accelerate: batches that it accumulates are one step."""

from __future__ import annotations

from pathlib import Path

import pytest
from integrated import left

accelerate = pytest.importorskip("accelerate", reason="accelerate is not installed: make test-integrations")
torch = pytest.importorskip("torch", reason="torch is not installed")

from rankscope.collector.integrations.accelerate import recorded  # noqa: E402


# ten batches: with 4 accumulated the last two are a step too, since the loader ends there
@pytest.mark.parametrize(("accumulated", "steps"), [(1, 10), (4, 3)])
def test_a_step_ends_when_gradients_are_applied(tmp_path: Path, accumulated: int, steps: int) -> None:
    accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)
    accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=accumulated)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = torch.utils.data.DataLoader(torch.randn(20, 4), batch_size=2)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    with recorded(accelerator, tmp_path / "run") as p:
        for batch in loader:
            with accelerator.accumulate(model):
                loss = model(batch).square().mean()
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
            p.log(loss=loss)
            p.step()
    (found,) = left(tmp_path / "run")
    assert (found.manifest.ended, found.manifest.steps) == ("finished", steps)
    assert all({"forward", "backward", "optimizer"} <= set(line["stages"]) for line in found.pulse)
    assert None not in found.logged("loss")
    assert found.failures() == []


def test_an_accelerator_that_fails_to_answer_is_noted(tmp_path: Path) -> None:
    class Broken:
        @property
        def sync_gradients(self) -> bool:
            raise RuntimeError("planted")

    with recorded(Broken(), tmp_path / "run") as p:
        p.step()
        p.step()
    (found,) = left(tmp_path / "run")
    assert found.manifest.probes["accelerate"] == "failed: RuntimeError: planted"
    assert found.failures() == ["accelerate"]
