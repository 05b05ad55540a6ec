"""Stages without a line of the user's code: real torch, one process, tiny models."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from recorded import Recorded, one

import rankscope

torch = pytest.importorskip("torch", reason="torch is not installed")

PAUSE_S = 0.05  # planted in a stage; the others of these models take a millisecond, on a busy machine some ten
PAUSE_NS = int(PAUSE_S * 1e9)


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("RANKSCOPE")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("RANKSCOPE_QUIET", "1")


class Pausing(torch.autograd.Function):
    """Pauses on the way forward or back."""

    @staticmethod
    def forward(ctx: Any, x: Any, forward_s: float, backward_s: float) -> Any:
        ctx.backward_s = backward_s
        time.sleep(forward_s)
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        time.sleep(ctx.backward_s)
        return gradient, None, None


class Rows(torch.utils.data.Dataset):
    def __init__(self, pause_s: float = 0.0, rows: int = 64) -> None:
        self.pause_s, self.rows = pause_s, rows

    def __len__(self) -> int:
        return self.rows

    def __getitem__(self, row: int) -> Any:
        time.sleep(self.pause_s)
        return torch.full((8,), float(row))


class Training:
    """A tiny training, with a pause where the test wants one."""

    def __init__(self, forward_s: float = 0.0, backward_s: float = 0.0, data_s: float = 0.0, workers: int = 0) -> None:
        self.model = torch.nn.Linear(8, 8)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3)
        self.forward_s, self.backward_s = forward_s, backward_s
        self.loader = torch.utils.data.DataLoader(Rows(data_s), batch_size=1, num_workers=workers)

    def loss(self, batch: Any) -> Any:
        return Pausing.apply(self.model(batch), self.forward_s, self.backward_s).square().mean()

    def steps(self, count: int, each: Callable[[Any], None] = lambda loss: None) -> None:
        for step, batch in enumerate(self.loader):
            if step == count:
                break
            loss = self.loss(batch)
            loss.backward()
            self.optimizer.step()
            self.optimizer.zero_grad()
            each(loss)


def planted(found: Recorded, stage: str, skip: int = 1) -> None:
    """This stage, and no other, holds the pause in the median step."""
    for name in ("data", "forward", "backward", "optimizer", "checkpoint", "other"):
        whole, _ = found.median_ns(name, skip)
        assert (whole >= PAUSE_NS) is (name == stage), name


def test_a_slow_dataset_is_data(tmp_path: Path) -> None:
    with rankscope.profile(tmp_path / "run") as p:
        Training(data_s=PAUSE_S).steps(6, lambda _: p.step())
    planted(one(tmp_path / "run"), "data")


def test_a_slow_forward_is_forward(tmp_path: Path) -> None:
    with rankscope.profile(tmp_path / "run") as p:
        Training(forward_s=PAUSE_S).steps(6, lambda _: p.step())
    planted(one(tmp_path / "run"), "forward")


def test_a_slow_backward_is_backward(tmp_path: Path) -> None:
    with rankscope.profile(tmp_path / "run") as p:
        Training(backward_s=PAUSE_S).steps(6, lambda _: p.step())
    planted(one(tmp_path / "run"), "backward")


def test_a_slow_optimizer_is_optimizer(tmp_path: Path) -> None:
    training = Training()

    class Slow(torch.optim.SGD):
        def step(self, closure: Any = None) -> Any:
            time.sleep(PAUSE_S)
            return super().step(closure)

    training.optimizer = Slow(training.model.parameters(), lr=1e-3)
    with rankscope.profile(tmp_path / "run") as p:
        training.steps(6, lambda _: p.step())
    planted(one(tmp_path / "run"), "optimizer")


def test_a_checkpoint_is_checkpoint_and_an_event(tmp_path: Path) -> None:
    training = Training()

    class Slow:
        def __reduce__(self) -> Any:
            time.sleep(PAUSE_S)
            return (int, (1,))

    def each(_: Any) -> None:
        torch.save({"model": training.model.state_dict(), "slow": Slow()}, tmp_path / "saved.pt")
        p.step()

    with rankscope.profile(tmp_path / "run") as p:
        training.steps(4, each)
    found = one(tmp_path / "run")
    planted(found, "checkpoint")
    saved = [event for event in found.events if event["kind"] == "checkpoint"]
    assert [event["step"] for event in saved] == [0, 1, 2, 3]
    assert all(event["duration_ns"] >= PAUSE_NS and event["what"] == "save" for event in saved)
    assert found.manifest.job["checkpoints"] == 4 and found.manifest.job["steps_since_checkpoint"] == 1


def test_without_a_loader_the_time_before_backward_is_forward(tmp_path: Path) -> None:
    training = Training(forward_s=PAUSE_S)
    with rankscope.profile(tmp_path / "run") as p:
        for _ in range(5):
            training.loss(torch.ones(8)).backward()
            training.optimizer.step()
            p.step()
    found = one(tmp_path / "run")
    planted(found, "forward")
    assert all("data" not in line["stages"] for line in found.pulse)


def test_each_pass_of_an_accumulating_step_is_split(tmp_path: Path) -> None:
    training = Training(forward_s=PAUSE_S / 2, backward_s=PAUSE_S / 4)
    with rankscope.profile(tmp_path / "run") as p:
        for _ in range(4):
            for _ in range(3):
                training.loss(torch.ones(8)).backward()
            training.optimizer.step()
            p.step()
    found = one(tmp_path / "run")
    for line in found.pulse:
        assert line["stages"]["forward"] >= 1.5 * PAUSE_NS and line["stages"]["backward"] >= 0.75 * PAUSE_NS
    assert found.median_ns("other", 0)[0] < PAUSE_NS  # two of the three forward passes would be as long


def test_without_a_word_a_step_ends_with_its_optimizer(tmp_path: Path) -> None:
    with rankscope.profile(tmp_path / "run"):
        Training(forward_s=PAUSE_S).steps(5)
    found = one(tmp_path / "run")
    assert [line["step"] for line in found.pulse] == list(range(5))
    for line in found.pulse:
        assert sum(line["stages"].values()) == line["wall_ns"]
        assert line["stages"]["forward"] >= PAUSE_NS
    assert found.median_ns("forward", 0)[0] < 2 * PAUSE_NS  # one pass a step, not two


def test_the_first_of_two_optimizers_ends_the_step(tmp_path: Path) -> None:
    training, second = Training(), Training()
    with rankscope.profile(tmp_path / "run"):
        for _ in range(4):
            for each in (training, second):
                each.loss(torch.ones(8)).backward()
                each.optimizer.step()
    assert one(tmp_path / "run").manifest.steps == 4


def test_steps_that_the_code_names_are_not_ended_by_optimizers_too(tmp_path: Path) -> None:
    training, second = Training(), Training()
    with rankscope.profile(tmp_path / "run") as p:
        for _ in range(4):
            for each in (training, second):
                each.loss(torch.ones(8)).backward()
                each.optimizer.step()
            p.step()
    found = one(tmp_path / "run")
    assert [line["step"] for line in found.pulse] == list(range(4))
    assert all(sum(line["stages"].values()) == line["wall_ns"] for line in found.pulse)


def test_optimizers_inside_backward_are_part_of_it_and_end_no_step(tmp_path: Path) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 8))
    for parameter in model.parameters():
        optimizer = torch.optim.SGD([parameter], lr=1e-3)
        parameter.register_post_accumulate_grad_hook(lambda _, optimizer=optimizer: optimizer.step())
    with rankscope.profile(tmp_path / "run") as p:
        for _ in range(3):
            model(torch.ones(8)).sum().backward()
            p.step()
    found = one(tmp_path / "run")
    assert found.manifest.steps == 3 and all("optimizer" not in line["stages"] for line in found.pulse)


def test_a_closure_runs_forward_and_backward_inside_the_optimizer(tmp_path: Path) -> None:
    training = Training(backward_s=PAUSE_S)
    optimizer = torch.optim.LBFGS(training.model.parameters(), max_iter=1)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = training.loss(torch.ones(8))
        loss.backward()
        time.sleep(PAUSE_S)
        return loss

    with rankscope.profile(tmp_path / "run") as p:
        for _ in range(3):
            optimizer.step(closure)
            p.step()
    for line in one(tmp_path / "run").pulse:
        assert line["stages"]["backward"] >= PAUSE_NS and line["stages"]["optimizer"] >= PAUSE_NS


def test_recomputed_activations_stay_in_backward(tmp_path: Path) -> None:
    from torch.utils.checkpoint import checkpoint

    training = Training(forward_s=PAUSE_S)
    with rankscope.profile(tmp_path / "run") as p:
        for _ in range(3):
            x = torch.ones(8, requires_grad=True)
            checkpoint(training.loss, x, use_reentrant=True).backward()
            training.optimizer.step()
            p.step()
    for line in one(tmp_path / "run").pulse:
        assert line["stages"]["forward"] >= PAUSE_NS and line["stages"]["backward"] >= PAUSE_NS


def test_the_loss_as_a_tensor_is_that_of_its_step(tmp_path: Path) -> None:
    values = []

    def each(loss: Any) -> None:
        values.append(float(loss.detach()))
        p.log(loss=loss)
        loss.data.fill_(-1.0)  # what is done to the tensor afterwards does not matter
        p.step()

    with rankscope.profile(tmp_path / "run") as p:
        Training().steps(5, each)
    assert [line["log"]["loss"] for line in one(tmp_path / "run").pulse] == values


def test_a_tensor_of_many_elements_is_no_value(tmp_path: Path) -> None:
    with rankscope.profile(tmp_path / "run") as p:
        p.log(loss=torch.ones(1, 1), all=torch.ones(7))
        p.step()
    found = one(tmp_path / "run")
    assert found.pulse[0]["log"] == {"loss": 1.0} and "7 elements" in found.manifest.probes["log"]


def test_a_skipped_step_of_the_scaler_is_counted_and_ends_its_step(tmp_path: Path) -> None:
    training = Training()
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    with rankscope.profile(tmp_path / "run"):
        for step in range(5):
            loss = training.loss(torch.ones(8)) * (float("inf") if step == 2 else 1.0)
            scaler.scale(loss).backward()
            scaler.step(training.optimizer)
            scaler.update()
            training.optimizer.zero_grad()
    found = one(tmp_path / "run")
    job = found.manifest.job
    assert (found.manifest.steps, job["skipped_steps"], job["overflows"]) == (5, 1, 1)
    assert [event["step"] for event in found.events if event["kind"] == "skipped_step"] == [2]
    scales = [line["log"]["loss_scale"] for line in found.pulse if "log" in line]
    assert scales[:2] == [1024.0, 1024.0] and scales[-1] == 512.0


def test_loader_workers_are_forked_and_write_nothing(tmp_path: Path) -> None:
    with rankscope.profile(tmp_path / "run") as p:
        Training(workers=2).steps(6, lambda _: p.step())
    found = one(tmp_path / "run")
    assert found.manifest.ended == "finished" and [line["step"] for line in found.pulse] == list(range(6))
    assert found.manifest.pid == os.getpid()


def test_other_threads_do_not_move_the_clock(tmp_path: Path) -> None:
    own, other = Training(), Training(backward_s=PAUSE_S)
    with rankscope.profile(tmp_path / "run") as p:
        own.loss(torch.ones(8)).backward()
        own.optimizer.step()  # from here on, this thread is the one that trains
        p.step()
        thread = threading.Thread(target=other.steps, args=(3,))
        thread.start()
        thread.join()
        p.step()
    found = one(tmp_path / "run")
    assert found.manifest.steps == 2 and set(found.pulse[1]["stages"]) == {"other"}


def places() -> list[Any]:
    """What the hooks are laid over."""
    distributed = torch.nn.parallel.DistributedDataParallel
    return [
        torch.utils.data.dataloader._BaseDataLoaderIter.__next__, torch.autograd.backward, torch.autograd.grad, torch.save,
        torch.amp.GradScaler.step, torch.amp.GradScaler.update, distributed.__init__, distributed._sync_buffers,
        *([torch.distributed.Work.wait] if torch.distributed.is_available() else []),
    ]  # fmt: skip


def global_hooks() -> tuple[int, int]:
    import sys

    module = sys.modules["torch.optim.optimizer"]
    return len(module._global_optimizer_pre_hooks), len(module._global_optimizer_post_hooks)


def test_all_hooks_are_taken_away_at_the_end(tmp_path: Path) -> None:
    before, hooks = places(), global_hooks()
    for _ in range(2):
        with rankscope.profile(tmp_path / "run") as p:
            during = places()
            Training().steps(2, lambda _: p.step())
        assert all(was is not now for was, now in zip(before, during, strict=True))
        assert places() == before and global_hooks() == hooks


def test_hooks_may_go_while_torch_walks_its_list_of_them(tmp_path: Path) -> None:
    training, hooks = Training(), global_hooks()
    seen = []
    p = rankscope.profile(tmp_path / "run").start()
    training.optimizer.register_step_post_hook(lambda *_: p.stop())
    training.optimizer.register_step_post_hook(lambda *_: seen.append("after"))
    training.steps(2)
    assert seen == ["after", "after"] and global_hooks() == hooks


def test_a_compiled_model_is_recorded_and_not_recompiled(tmp_path: Path) -> None:
    training = Training(backward_s=PAUSE_S)
    training.model = torch.compile(training.model, backend="eager")
    training.optimizer = torch.optim.SGD(training.model.parameters(), lr=1e-3)
    training.steps(1)
    frames = dict(torch._dynamo.utils.counters["frames"])
    with rankscope.profile(tmp_path / "run") as p:
        training.steps(5, lambda _: p.step())
    assert dict(torch._dynamo.utils.counters["frames"]) == frames
    planted(one(tmp_path / "run"), "backward")


def test_a_session_may_begin_before_torch_is_used_and_end_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="shape"), rankscope.profile(tmp_path / "run") as p:
        training = Training()
        training.steps(2, lambda _: p.step())
        training.model(torch.ones(9))
    found = one(tmp_path / "run")
    assert found.manifest.ended is not None and found.manifest.ended.startswith("exception: RuntimeError: mat1 and mat2")
    assert len(found.pulse) == 2


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
