"""What is trained and how: the options of the trainer, as a dataclass and on the command line."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Literal, get_args

from rankscope.kernels.trainer.faults import KNOWN, Fault
from rankscope.kernels.trainer.model import ModelShape

Parallelism = Literal["ddp", "fsdp", "hsdp", "tensor", "fsdp+tensor", "pipeline"]


@dataclass(frozen=True, slots=True)
class Options:
    """One training job. `batch` is the global batch, in sequences, whatever the number of ranks."""

    shape: ModelShape = field(default_factory=ModelShape)
    steps: int = 50
    batch: int = 16
    length: int = 128
    learning_rate: float = 1e-3
    warmup: int = 10
    clip: float = 1.0
    seed: int = 0
    parallel: Parallelism = "fsdp"
    inner: int = 2  # ranks of a tensor group, of a shard group (hsdp)
    micro_batches: int = 1  # gradient accumulation; in a pipeline what the schedule divides the batch into
    bf16: bool = False
    recompute: bool = False  # activation checkpointing
    compile: bool = False
    prefetch: int = 1  # fsdp: units gathered ahead; 0: none
    bucket_mb: float = 25.0  # ddp
    workers: int = 2
    text: Path | None = None
    checkpoint: Path | None = None
    checkpoint_every: int = 0  # steps; 0: at the end only
    checkpoint_async: bool = False
    resume: bool = False
    profile: Path | None = None  # run directory for rankscope
    profile_mode: str = "pulse"
    peak_tflops: float | None = None  # dense, of the dtype trained in; for devices that are not in the table
    log_every: int = 10
    faults: tuple[Fault, ...] = ()


HELP = {
    "steps": "optimizer steps",
    "batch": "global batch, in sequences",
    "length": "tokens (bytes) a sequence",
    "learning_rate": "peak of AdamW's learning rate",
    "warmup": "steps in which the learning rate rises",
    "clip": "largest norm of the gradient",
    "seed": "weights and order of the data follow from it",
    "parallel": "how the ranks share the work",
    "inner": "ranks of a tensor group, or of a shard group with hsdp",
    "micro_batches": "gradient accumulation, or the pipeline's micro-batches",
    "bf16": "compute in bfloat16",
    "recompute": "activation checkpointing: keep block inputs only",
    "compile": "torch.compile every block",
    "prefetch": "fsdp: how many blocks are gathered ahead",
    "bucket_mb": "ddp: gradients reduced together",
    "workers": "DataLoader worker processes a rank",
    "text": "a file to train on, as bytes (default: a made text)",
    "checkpoint": "folder for checkpoints",
    "checkpoint_every": "steps between checkpoints (0: only at the end)",
    "checkpoint_async": "write checkpoints from a thread",
    "resume": "go on from the newest whole checkpoint",
    "profile": "rankscope's run directory",
    "profile_mode": "pulse, window or full",
    "peak_tflops": "the device's dense peak, for the MFU",
    "log_every": "steps between lines of log",
}


def parse(arguments: Sequence[str] | None = None) -> Options:
    """The options on the command line; exits with a sentence on bad ones."""
    parser = argparse.ArgumentParser(
        prog="rankscope.kernels.trainer",
        description="Train a small LLaMA-style model on bytes: a reference to learn from and to measure against.",
        epilog="faults:\n" + "\n".join(f"  {name:18} {what}" for name, what in sorted(KNOWN.items())),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for option in fields(Options):
        flag = "--" + option.name.replace("_", "-")
        if option.name in ("shape", "faults"):
            continue
        if option.type == "bool":
            parser.add_argument(flag, action="store_true", help=HELP[option.name])
        elif option.name == "parallel":
            parser.add_argument(flag, choices=get_args(Parallelism), default="fsdp", help=HELP[option.name])
        else:
            kind = next(kind for kind in (int, float, Path, str) if kind.__name__ in str(option.type))
            text = HELP[option.name] + ("" if option.default is None else f" (default: {option.default})")
            parser.add_argument(flag, type=kind, default=option.default, metavar=kind.__name__.upper(), help=text)
    for size in fields(ModelShape):
        kind = int if "int" in str(size.type) else float
        parser.add_argument(
            "--" + size.name.replace("_", "-"), type=kind, default=size.default, metavar=kind.__name__.upper(),
            help=f"size of the model (default: {size.default})",
        )  # fmt: skip
    parser.add_argument(
        "--fault", action="append", default=[], metavar="NAME:rank=2,ms=80", help="plant a fault, see below"
    )
    given = vars(parser.parse_args(arguments))
    try:
        faults = tuple(Fault.parse(text) for text in given.pop("fault"))
        shape = ModelShape(**{size.name: given.pop(size.name) for size in fields(ModelShape)})
    except ValueError as error:
        parser.error(str(error))
    return Options(shape=shape, faults=faults, **given)
