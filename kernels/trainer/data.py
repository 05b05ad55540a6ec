"""Bytes in, batches out: a text as windows of bytes, and which of them each rank sees in each step."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor
from torch.utils.data import Dataset

WORDS = ("the", "rank", "that", "waits", "is", "not", "one", "slow", "and", "step", "ends", "when", "last", "comes")
MADE_BYTES = 1 << 20


class Windows(Dataset[Tensor]):
    """Windows of `length` + 1 bytes of a text, as int64: inputs and, one further on, targets. Without a file, a made text."""

    def __init__(self, length: int, text: Path | None = None, seed: int = 0) -> None:
        raw = text.read_bytes() if text else made_text(seed)
        if len(raw) <= length:
            raise ValueError(f"the text has {len(raw)} bytes, less than one window of {length + 1}")
        self.bytes = torch.frombuffer(bytearray(raw), dtype=torch.uint8)
        self.length = length

    def __len__(self) -> int:
        return (len(self.bytes) - 1) // self.length

    def __getitem__(self, index: int) -> Tensor:
        begin = index * self.length
        return self.bytes[begin : begin + self.length + 1].long()


class Batches:
    """Indices for a DataLoader's `batch_sampler`: the global batch of every step, this rank's part of it.

    The order follows from the seed alone, so that a run of N ranks sees in each step the samples that one rank alone
    would see, and a run that starts at step k sees what it would have seen.
    """

    def __init__(self, samples: int, batch: int, part: int, parts: int, seed: int, steps: range) -> None:
        if batch % parts:
            raise ValueError(f"a batch of {batch} does not divide by {parts} data-parallel ranks")
        if samples < batch:
            raise ValueError(f"{samples} samples are fewer than one batch of {batch}")
        self.samples, self.batch, self.seed, self.steps = samples, batch, seed, steps
        self.mine = slice(part * batch // parts, (part + 1) * batch // parts)

    def __len__(self) -> int:
        return len(self.steps)

    def __iter__(self) -> Iterator[list[int]]:
        per_epoch = self.samples // self.batch
        order: list[int] = []
        shuffled = -1
        for step in self.steps:
            epoch, position = divmod(step, per_epoch)
            if epoch != shuffled:
                generator = torch.Generator().manual_seed(self.seed + epoch)
                order, shuffled = torch.randperm(self.samples, generator=generator).tolist(), epoch
            yield order[position * self.batch : (position + 1) * self.batch][self.mine]


def made_text(seed: int) -> bytes:
    """A megabyte of words in seeded order: enough of a pattern for a loss to fall."""
    generator = torch.Generator().manual_seed(seed)
    average = sum(map(len, WORDS)) / len(WORDS) + 1
    picks = torch.randint(len(WORDS), (int(MADE_BYTES / average),), generator=generator).tolist()
    return " ".join(WORDS[pick] for pick in picks).encode()
