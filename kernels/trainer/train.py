"""The training loop: read it as a model of how to do it. Loss, tokens/s, MFU and memory in every line of log.

What is particular to a way of sharing the work is in parallel.py; everything here is the same for all of them.
"""

from __future__ import annotations

import logging
import math
import os
import time
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor
from torch.utils.data import DataLoader, default_collate

import rankscope
from rankscope.kernels import peaks
from rankscope.kernels.trainer import parallel
from rankscope.kernels.trainer.checkpoint import Checkpoints
from rankscope.kernels.trainer.data import Batches, Windows
from rankscope.kernels.trainer.faults import Faults
from rankscope.kernels.trainer.options import Options

log = logging.getLogger("rankscope.trainer")
LEAST_RATE = 0.1  # of the peak, where the cosine ends


def train(options: Options) -> list[float]:
    """Train, and return the loss of every logged step: the mean over the global batch, the same on every rank."""
    device = begin()
    try:
        losses = Training(options, device).run()
        if dist.is_initialized():
            dist.barrier()  # a process that leaves while its peer still talks to it may abort (gloo, torch 2.13)
        return losses
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()


def begin() -> torch.device:
    """This rank's device; under torchrun with a process group, NCCL on GPUs, gloo on CPUs."""
    logging.basicConfig(
        format="%(message)s", level=logging.INFO if os.environ.get("RANK", "0") == "0" else logging.WARNING
    )
    gpu = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0"))) if gpu else torch.device("cpu")
    if gpu:
        torch.cuda.set_device(device)
    if "RANK" in os.environ:
        dist.init_process_group("cuda:nccl,cpu:gloo" if gpu else "gloo")
    return device


class Training:
    """One job on one rank."""

    def __init__(self, options: Options, device: torch.device) -> None:
        self.rank = dist.get_rank() if dist.is_initialized() else 0
        self.faults = Faults(options.faults, self.rank)
        self.options = options = self.faults.settings(options)
        self.device = device
        self.place = parallel.layout(options, device)
        model = parallel.build(options, self.place, device)
        self.parameters = sum(p.numel() for p in model.parameters())
        self.faults.in_model(list(model.layers.values())[len(model.layers) // 2].feed_forward)
        self.model = parallel.share(model, options, self.place, device)
        self.groups = parallel.parameter_groups(self.model)
        self.optimizer = torch.optim.AdamW(self.groups, lr=options.learning_rate, betas=(0.9, 0.95), weight_decay=0.1)
        self.faults.in_optimizer(self.optimizer)
        self.schedule = torch.optim.lr_scheduler.LambdaLR(self.optimizer, self._rate)
        self.pipeline = (
            parallel.Pipeline(self.model, options, self.place, device, loss_of) if self.place.axis("stage") else None
        )
        stall = self.faults.total_ms("checkpoint-stall")
        self.checkpoints = (
            Checkpoints(options.checkpoint, from_thread=options.checkpoint_async, delay_ms=stall)
            if options.checkpoint
            else None
        )

    def run(self) -> list[float]:
        """All steps that are left."""
        options, losses = self.options, []
        first = self.checkpoints.load(self.model, self.optimizer) if self.checkpoints and options.resume else 0
        for _ in range(first):
            self.schedule.step()
        with self.profiled() as profile:
            began = time.perf_counter()
            for step, batch in enumerate(self.loader(range(first, options.steps)), first):
                self.faults.before(step)
                loss, norm = self.step(batch)
                last = step + 1 == options.steps
                due = options.checkpoint_every and (step + 1) % options.checkpoint_every == 0
                if self.checkpoints and (due or last):
                    self.checkpoints.save(step + 1, self.model, self.optimizer)
                self.faults.after()
                profile.log(loss=loss, grad_norm=norm, tokens=options.batch * options.length)
                profile.step()
                if last or (step + 1) % options.log_every == 0:
                    losses.append(float(parallel.global_mean(loss, self.place)))
                    began = self.say(step, losses[-1], norm, began)
            if self.checkpoints:
                self.checkpoints.finish()
        return losses

    def step(self, batch: Tensor) -> tuple[Tensor, Tensor]:
        """One optimizer step: the mean loss of this rank's part of the batch, and the norm of all gradients."""
        batch = batch[:, : self.faults.length(batch.shape[1])].to(self.device, non_blocking=True)
        inputs, targets = batch[:, :-1], batch[:, 1:]
        loss = self.pipeline(inputs, targets) if self.pipeline else self.accumulate(inputs, targets)
        norm = parallel.clip_gradients(self.groups, self.options.clip, self.place)
        self.optimizer.step()
        self.schedule.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss, norm

    def accumulate(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """Forward and backward in micro-batches; the gradients are reduced with the last."""
        count = self.options.micro_batches
        total = torch.zeros((), device=self.device)
        for i, (x, y) in enumerate(zip(inputs.chunk(count), targets.chunk(count), strict=True), 1):
            parallel.sync_gradients(self.model, now=i == count)
            with self.precision():
                loss = loss_of(self.model(x), y) / count
            loss.backward()
            total += loss.detach()
        return total

    def precision(self) -> AbstractContextManager[object]:
        """bfloat16 where asked for; FSDP casts by itself."""
        if self.options.bf16 and self.options.parallel not in ("fsdp", "hsdp", "fsdp+tensor"):
            return torch.autocast(self.device.type, torch.bfloat16)
        return nullcontext()

    def loader(self, steps: range) -> DataLoader[Tensor]:
        """Batches of these steps, fetched by worker processes."""
        options = self.options
        windows = Windows(options.length, options.text, options.seed)
        order = Batches(len(windows), options.batch, self.place.part, self.place.parts, options.seed, steps)
        return DataLoader(
            self.faults.in_data(windows, options.batch // self.place.parts),
            batch_sampler=order,
            num_workers=options.workers,
            collate_fn=self.faults.collate(default_collate),
            pin_memory=self.device.type == "cuda",
            persistent_workers=options.workers > 0,
        )

    def profiled(self) -> AbstractContextManager[Any]:
        """rankscope around the loop, where it was asked for."""
        if self.options.profile is None:
            return nullcontext(Unprofiled())
        return rankscope.profile(self.options.profile, mode=self.options.profile_mode)

    def say(self, step: int, loss: float, norm: Tensor, began: float) -> float:
        """One line of log; the time, for the next."""
        now, options = time.perf_counter(), self.options
        steps = (step % options.log_every) + 1
        tokens = options.batch * options.length * steps / (now - began)
        log.info(
            "step %d  loss %.4f  norm %.2f  %s tokens/s  MFU %s  memory %s",
            step + 1, loss, float(norm), f"{tokens:,.0f}", self.utilisation(tokens), memory(self.device),
        )  # fmt: skip
        return now

    def utilisation(self, tokens_per_s: float) -> str:
        """Model FLOPs against the dense peak of all devices (PaLM's convention); said where the peak is not known."""
        name = torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else "CPU"
        peak = self.options.peak_tflops or peaks.bf16_tflops(name)
        if peak is None:
            return "not known (--peak-tflops)"
        world = dist.get_world_size() if dist.is_initialized() else 1
        flops = self.options.shape.flops_per_token(self.options.length, self.parameters)
        return f"{tokens_per_s * flops / (peak * 1e12 * world):.1%}"

    def _rate(self, step: int) -> float:
        """Linear warm-up, then a cosine down to LEAST_RATE."""
        options = self.options
        if step < options.warmup:
            return (step + 1) / options.warmup
        done = (step - options.warmup) / max(1, options.steps - options.warmup)
        return LEAST_RATE + (1 - LEAST_RATE) * 0.5 * (1 + math.cos(math.pi * min(done, 1.0)))


class Unprofiled:
    """What the loop reports to when nobody listens."""

    def log(self, **values: Tensor | float) -> None:
        """Nothing."""

    def step(self) -> None:
        """Nothing."""


def loss_of(logits: Tensor, targets: Tensor) -> Tensor:
    """Mean cross-entropy of (B, T, V) logits against (B, T) targets, in float32."""
    return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


def memory(device: torch.device) -> str:
    """Peak of device memory; on a CPU of this process."""
    if device.type == "cuda":
        return f"{torch.cuda.max_memory_allocated(device) / 2**30:.2f} GiB"
    import resource

    return f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB"
