"""How ranks share the work: DDP, FSDP2, HSDP, tensor parallel, both, and pipeline stages.

A mesh of ranks has an axis for each kind of sharing. Data-parallel ranks see different samples; ranks of a tensor group or a
pipeline see the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.distributed.tensor import DTensor, Replicate
from torch.distributed.tensor.parallel import ColwiseParallel, ParallelStyle, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

from rankscope.kernels.trainer.model import ModelShape, Transformer
from rankscope.kernels.trainer.options import Options

Loss = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True, slots=True)
class Layout:
    """The mesh, and this rank's place on it."""

    mesh: DeviceMesh | None  # None: one process
    part: int = 0  # which part of the batch this rank sees
    parts: int = 1

    def axis(self, name: str) -> DeviceMesh | None:
        """The mesh along one axis; None where there is no such axis."""
        names = self.mesh.mesh_dim_names if self.mesh else None
        return self.mesh[name] if self.mesh and names and name in names else None


def layout(options: Options, device: torch.device) -> Layout:
    """Lay the ranks out; ValueError where they do not fit."""
    world = dist.get_world_size() if dist.is_initialized() else 1
    if world == 1:
        return Layout(None)
    axes = {
        "ddp": {"data": world},
        "fsdp": {"data": world},
        "hsdp": {"replica": world // options.inner, "data": options.inner},
        "tensor": {"tensor": world},
        "fsdp+tensor": {"data": world // options.inner, "tensor": options.inner},
        "pipeline": {"stage": world},
    }[options.parallel]
    if math.prod(axes.values()) != world:
        raise ValueError(f"{world} ranks do not divide into groups of {options.inner}")
    mesh = init_device_mesh(device.type, tuple(axes.values()), mesh_dim_names=tuple(axes))
    parallel = [name for name in axes if name in ("replica", "data")]
    part, parts = 0, 1
    for name in parallel:
        part, parts = part * axes[name] + mesh.get_local_rank(name), parts * axes[name]
    return Layout(mesh, part, parts)


def build(options: Options, place: Layout, device: torch.device) -> nn.Module:
    """The model of this rank, with its weights, not yet shared out over data-parallel ranks."""
    stages = place.axis("stage")
    layers, first, last = range(options.shape.layers), True, True
    if stages is not None:
        stage, count = stages.get_local_rank(), stages.size()
        layers = range(stage * len(layers) // count, (stage + 1) * len(layers) // count)
        first, last = stage == 0, stage == count - 1
    model = Transformer(options.shape, layers, first=first, last=last)
    model.initialise(options.seed)
    return model.to(device)


def share(model: nn.Module, options: Options, place: Layout, device: torch.device) -> nn.Module:
    """Shard, replicate, recompute and compile it as the options say."""
    tensor, data, replica = place.axis("tensor"), place.axis("data"), place.axis("replica")
    blocks = model.layers
    if tensor is not None:
        parallelize_module(model, tensor, _tensor_plan(options.shape))
    for name, block in blocks.items():
        if options.recompute:
            block = checkpoint_wrapper(block)
        if options.compile:
            block.compile(dynamic=False)  # sequences are all of one length
        blocks[name] = block
    if data is None:
        return model
    if options.parallel == "ddp":
        ids = [device.index] if device.type == "cuda" else None
        return DistributedDataParallel(
            model, device_ids=ids, bucket_cap_mb=options.bucket_mb, gradient_as_bucket_view=True
        )
    mesh = place.mesh if replica is not None else data
    policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32) if options.bf16 else MixedPrecisionPolicy()
    for block in blocks.values():
        fully_shard(block, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)
    _prefetch(list(blocks.values()), options.prefetch)
    return model


def _tensor_plan(shape: ModelShape) -> dict[str, ParallelStyle]:
    """Columns of what opens a half of a block, rows of what closes it: one all-reduce a half (arXiv 1909.08053)."""
    plan: dict[str, ParallelStyle] = {}
    for i in range(shape.layers):
        for column in ("attention.query", "attention.key", "attention.value", "feed_forward.gate", "feed_forward.up"):
            plan[f"layers.{i}.{column}"] = ColwiseParallel()
        for row in ("attention.output", "feed_forward.down"):
            plan[f"layers.{i}.{row}"] = RowwiseParallel()
    plan["embedding"] = RowwiseParallel(input_layouts=Replicate())
    plan["output"] = ColwiseParallel(output_layouts=Replicate())
    return plan


def _prefetch(blocks: list[nn.Module], ahead: int) -> None:
    """Gather so many blocks before they are needed."""
    for i, block in enumerate(blocks):
        assert isinstance(block, FSDPModule)
        block.set_modules_to_forward_prefetch(blocks[i + 1 : i + 1 + ahead])
        block.set_modules_to_backward_prefetch(blocks[max(0, i - ahead) : i][::-1])


def sync_gradients(model: nn.Module, *, now: bool) -> None:
    """Whether the next backward pass reduces the gradients over the data-parallel ranks, or only adds to them."""
    if isinstance(model, FSDPModule):
        model.set_requires_gradient_sync(now)
    elif isinstance(model, DistributedDataParallel):
        model.require_backward_grad_sync = now


class Pipeline:
    """A stage of a 1F1B pipeline (arXiv 2104.04473): forward and backward of a batch in one call."""

    def __init__(self, stage: nn.Module, options: Options, place: Layout, device: torch.device, loss: Loss) -> None:
        axis = place.axis("stage")
        assert axis is not None
        self.position, self.stages = axis.get_local_rank(), axis.size()
        self.device = device
        pipe = PipelineStage(stage, self.position, self.stages, device, group=axis.get_group())
        self.schedule = Schedule1F1B(pipe, n_microbatches=max(options.micro_batches, self.stages), loss_fn=loss)

    def __call__(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """The mean loss of the batch on the last stage, 0 on the others."""
        losses: list[Tensor] = []
        if self.position == 0:
            self.schedule.step(inputs)
        elif self.position == self.stages - 1:
            self.schedule.step(target=targets, losses=losses)
        else:
            self.schedule.step()
        return torch.stack(losses).mean().detach() if losses else torch.zeros((), device=self.device)


def global_mean(loss: Tensor, place: Layout) -> Tensor:
    """The mean over data-parallel ranks of what the last stage has. A collective: for the steps that are logged."""
    mean = loss / place.parts
    for name in ("data", "replica", "stage"):
        axis = place.axis(name)
        if axis is not None:
            dist.all_reduce(mean, group=axis.get_group())
    return mean


def parameter_groups(model: nn.Module) -> list[dict[str, list[nn.Parameter]]]:
    """Parameters by mesh: the optimizer's multi-tensor kernels take tensors of one kind at a time."""
    groups: dict[DeviceMesh | None, list[nn.Parameter]] = {}
    for parameter in model.parameters():
        mesh = parameter.device_mesh if isinstance(parameter, DTensor) else None
        groups.setdefault(mesh, []).append(parameter)
    return [{"params": parameters} for parameters in groups.values()]


def clip_gradients(groups: Iterable[dict[str, list[nn.Parameter]]], most: float, place: Layout) -> Tensor:
    """Scale all gradients so that their norm over all ranks is at most `most`; the norm before."""
    squares = []
    lists = [group["params"] for group in groups]
    for parameters in lists:
        norm = nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None])
        squares.append((norm.full_tensor() if isinstance(norm, DTensor) else norm) ** 2)
    total = torch.stack(squares).sum()
    stages = place.axis("stage")
    if stages is not None:
        dist.all_reduce(total, group=stages.get_group())
    for parameters in lists:
        nn.utils.clip_grads_with_norm_(parameters, most, total.sqrt())
    return total.sqrt()
