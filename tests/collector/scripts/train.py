"""A tiny training on gloo with one thing planted: `train.py [RUN_DIR]` and what it asks for. Without RUN_DIR no rankscope."""

import argparse
import contextlib
import os
import sys
import time

import torch
import torch.distributed as dist

asked = argparse.ArgumentParser()
asked.add_argument("run_dir", nargs="?")
asked.add_argument("--parallel", choices=["ddp", "fsdp2"], default="ddp")
asked.add_argument("--steps", type=int, default=16)
asked.add_argument("--slow", choices=["data", "forward", "backward", "optimizer"])
asked.add_argument("--raise-on", type=int)
asked.add_argument("--accumulate", type=int, default=1)
asked.add_argument("--late-half", action="store_true", help="other parameters get gradients in the second half")
args = asked.parse_args()

torch.set_num_threads(1)
torch.manual_seed(0)
dist.init_process_group("gloo")
rank = dist.get_rank()
PAUSE_S = 0.08


def pause(stage: str) -> None:
    """The planted fault: the last rank is late in one stage."""
    if args.slow == stage and rank == dist.get_world_size() - 1:
        time.sleep(PAUSE_S)


class Rows(torch.utils.data.Dataset):
    def __len__(self) -> int:
        return 10_000

    def __getitem__(self, row: int) -> torch.Tensor:
        if row % 4 == 0:
            pause("data")
        return torch.randn(64)


class Pausing(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        pause("forward")
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        pause("backward")
        return gradient


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = torch.nn.ModuleList(torch.nn.Linear(64, 64) for _ in range(4))
        self.heads = torch.nn.ModuleList(torch.nn.Linear(64, 64) for _ in range(2))
        self.norm = torch.nn.BatchNorm1d(64)  # its buffers are broadcast by DDP
        self.head = 0

    def forward(self, x):
        for number, block in enumerate(self.blocks):
            x = torch.relu(block(x))
            if number == 1:
                x = Pausing.apply(x)
        return self.heads[self.head](self.norm(x)) if args.parallel == "ddp" else self.heads[self.head](x)


model = Model()
if args.parallel == "ddp":
    trained = torch.nn.parallel.DistributedDataParallel(model, find_unused_parameters=True, bucket_cap_mb=0.02)
else:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    trained = fully_shard(model, mesh=mesh)
optimizer = torch.optim.AdamW(model.parameters())
optimizer.register_step_pre_hook(lambda *_: pause("optimizer"))

if args.run_dir is None:
    recording = None
else:
    import rankscope

    recording = rankscope.profile(args.run_dir)
with recording or contextlib.nullcontext():
    batches = iter(torch.utils.data.DataLoader(Rows(), batch_size=4))
    for step in range(args.steps):
        if args.late_half and step >= args.steps // 2:
            model.head = 1
        for part in range(args.accumulate):
            last = part == args.accumulate - 1
            quiet = contextlib.nullcontext() if last or args.parallel != "ddp" else trained.no_sync()
            with quiet:
                loss = trained(next(batches)).square().mean()
                loss.backward()
        if args.raise_on == rank and step == args.steps // 2:
            raise RuntimeError("planted")
        optimizer.step()
        optimizer.zero_grad()
        if recording is not None:
            recording.log(loss=loss, tokens=256)
            recording.step()
dist.destroy_process_group()
sys.stdout.write(f"rank {rank} done {os.getpid()}\n")
