"""Faults to plant: each one that a rule knows, at a place and of a size of one's own choosing.

`NAME:rank=2,ms=80,every=1,start=5`: on rank 2 (left out: on all), 80 ms, in every step from step 5 on.
A slow forward, backward or optimizer is an operator that sleeps: a profiler sees it compute, and it takes no core from the
other ranks of a machine. A sleep in plain Python (`slow-host`) is the host's fault.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.utils.data import Dataset

if TYPE_CHECKING:
    from rankscope.kernels.trainer.options import Options

KNOWN = {
    "slow-forward": "an operator of the forward pass takes longer",
    "slow-backward": "an operator of the backward pass takes longer",
    "slow-optimizer": "the optimizer takes longer",
    "slow-data": "fetching a sample takes longer (ms for a batch)",
    "slow-collate": "putting a batch together takes longer",
    "slow-host": "Python sleeps between two steps",
    "gc": "Python collects garbage for so long",
    "checkpoint-stall": "writing a checkpoint takes longer",
    "sync-points": "the loss is read on the host after every block (needs a device to cost time)",
    "tiny-buckets": "DDP reduces gradients one by one",
    "no-prefetch": "FSDP gathers no block ahead",
    "recompilation": "sequences of another length in every step, each compiled anew (with --compile)",
    "uneven-lengths": "the rank's sequences are `times` as long",
    "hang": "the rank stops before the step `start`",
    "order-mismatch": "the rank calls another collective than its peers in step `start`",
}


@dataclass(frozen=True, slots=True)
class Fault:
    """One planted fault. `rank` None: all ranks."""

    name: str
    rank: int | None = None
    ms: float = 50.0
    every: int = 1
    start: int = 0
    times: int = 2

    @classmethod
    def parse(cls, text: str) -> Fault:
        """From `NAME:key=value,...`; ValueError says what is wrong with it."""
        name, _, rest = text.partition(":")
        if name not in KNOWN:
            raise ValueError(f"there is no fault {name!r}; there are {', '.join(sorted(KNOWN))}")
        given: dict[str, Any] = {}
        kinds = {field.name: float if field.name == "ms" else int for field in fields(cls) if field.name != "name"}
        for part in filter(None, rest.split(",")):
            key, _, value = part.partition("=")
            try:
                given[key] = kinds[key](value)
            except (KeyError, ValueError):
                raise ValueError(f"{part!r} in {text!r} is none of {', '.join(f'{k}=NUMBER' for k in kinds)}") from None
        if given.get("every", 1) < 1 or given.get("ms", 0) < 0:
            raise ValueError(f"{text!r}: every is at least 1, ms at least 0")
        return cls(name, **given)

    def hits(self, step: int) -> bool:
        """Whether it acts in this step."""
        return step >= self.start and (step - self.start) % self.every == 0


@torch.library.custom_op("rankscope_fault::delay", mutates_args=())
def delay(x: Tensor, ms: float) -> Tensor:
    """The same numbers, later."""
    time.sleep(ms / 1e3)
    return x.clone()


@torch.library.custom_op("rankscope_fault::delayed_gradient", mutates_args=())
def delayed_gradient(x: Tensor, ms: float) -> Tensor:
    """The same numbers at once, their gradient later."""
    return x.clone()


delay.register_fake(lambda x, ms: torch.empty_like(x))
delayed_gradient.register_fake(lambda x, ms: torch.empty_like(x))
delay.register_autograd(lambda ctx, gradient: (gradient, None))
delayed_gradient.register_autograd(
    lambda ctx, gradient: (delay(gradient, ctx.ms), None),
    setup_context=lambda ctx, inputs, output: setattr(ctx, "ms", inputs[1]),
)


class Faults:
    """The faults of this rank, at the places where the trainer offers to be disturbed."""

    def __init__(self, planted: tuple[Fault, ...], rank: int) -> None:
        self.mine = [fault for fault in planted if fault.rank in (None, rank)]
        self.step = 0

    def ms(self, name: str) -> float:
        """What faults of this name add now, milliseconds."""
        return sum(fault.ms for fault in self.mine if fault.name == name and fault.hits(self.step))

    def has(self, name: str) -> bool:
        """Whether this rank has a fault of this name, now or later."""
        return any(fault.name == name for fault in self.mine)

    def total_ms(self, name: str) -> float:
        """What faults of this name add whenever they act, milliseconds."""
        return sum(fault.ms for fault in self.mine if fault.name == name)

    def settings(self, options: Options) -> Options:
        """The options as they are with the faults that are wrong settings."""
        if self.has("tiny-buckets"):
            options = replace(options, bucket_mb=0.001)
        if self.has("no-prefetch"):
            options = replace(options, prefetch=0)
        return replace(options, compile=True) if self.has("recompilation") else options

    def in_model(self, middle: nn.Module) -> None:
        """Make this module's forward and backward slow."""
        if self.has("slow-forward"):
            middle.register_forward_hook(lambda module, inputs, out: self._slow(delay, "slow-forward", out))
        if self.has("slow-backward"):
            middle.register_forward_hook(lambda module, inputs, out: self._slow(delayed_gradient, "slow-backward", out))
        if self.has("sync-points"):
            middle.register_forward_hook(_read)

    def in_optimizer(self, optimizer: torch.optim.Optimizer) -> None:
        """Make its step slow."""
        if self.has("slow-optimizer"):
            one = torch.zeros(1)

            def slow(*_: object) -> None:
                self._slow(delay, "slow-optimizer", one)

            optimizer.register_step_pre_hook(slow)

    def in_data(self, dataset: Dataset[Tensor], batch: int) -> Dataset[Tensor]:
        """The dataset, slow to fetch from. Loader workers see the faults as they were when they started."""
        slow = self.total_ms("slow-data")
        return Slow(dataset, slow / batch) if slow else dataset

    def collate(self, inner: Callable[[list[Tensor]], Tensor]) -> Callable[[list[Tensor]], Tensor]:
        """The collate function, slow or with longer sequences."""
        slow = self.total_ms("slow-collate")
        times = max((fault.times for fault in self.mine if fault.name == "uneven-lengths"), default=1)
        return Collate(inner, slow, times) if slow or times > 1 else inner

    def before(self, step: int) -> None:
        """What happens on the host before the step."""
        self.step = step
        collecting = self.ms("gc")
        until = time.perf_counter() + collecting / 1e3
        while collecting and time.perf_counter() < until:
            gc.collect()
        for fault in self.mine:
            if fault.name == "hang" and step == fault.start:
                time.sleep(3600)
            if fault.name == "order-mismatch" and step == fault.start:
                dist.all_reduce(torch.zeros(3))

    def after(self) -> None:
        """What happens on the host after the step's work."""
        time.sleep(self.ms("slow-host") / 1e3)

    def length(self, length: int) -> int:
        """How much is used of sequences of this length."""
        changing = any(fault.name == "recompilation" and fault.hits(self.step) for fault in self.mine)
        return length - 1 - self.step % (length // 2) if changing else length

    def _slow(self, operator: Callable[[Tensor, float], Tensor], name: str, x: Tensor) -> Tensor:
        ms = self.ms(name)
        return operator(x, ms) if ms else x


def _read(module: nn.Module, inputs: object, out: Tensor) -> None:
    out.detach().sum().item()


class Slow(Dataset[Tensor]):
    """A dataset that takes longer for each sample."""

    def __init__(self, inner: Dataset[Tensor], ms: float) -> None:
        self.inner, self.ms = inner, ms

    def __len__(self) -> int:
        return len(self.inner)

    def __getitem__(self, index: int) -> Tensor:
        time.sleep(self.ms / 1e3)
        return self.inner[index]


@dataclass(frozen=True, slots=True)
class Collate:
    """A collate function that takes longer, or makes sequences `times` as long. Pickles, for loader workers."""

    inner: Callable[[list[Tensor]], Tensor]
    ms: float
    times: int

    def __call__(self, samples: list[Tensor]) -> Tensor:
        """The batch (B, T) of these samples."""
        time.sleep(self.ms / 1e3)
        batch = self.inner(samples)
        return torch.cat([batch[:, :-1]] * (self.times - 1) + [batch], dim=1)
