"""A LLaMA-style language model: RMSNorm, rotary positions, grouped-query attention, SwiGLU; no biases.

Shapes: B sequences of T tokens, D features, H query heads and K key/value heads of D/H features.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True, slots=True)
class ModelShape:
    """Sizes of the model. `hidden` is the SwiGLU's inner width."""

    vocabulary: int = 256  # bytes
    dim: int = 128
    layers: int = 4
    heads: int = 8
    kv_heads: int = 4
    hidden: int = 352  # 8/3 of dim, rounded up to 32
    rope_base: float = 10_000.0
    norm_eps: float = 1e-5

    def __post_init__(self) -> None:
        """Refuse what does not divide with ValueError."""
        if self.dim % self.heads or self.heads % self.kv_heads or (self.dim // self.heads) % 2:
            raise ValueError("dim must divide by heads, heads by kv_heads, and dim/heads by 2")

    def flops_per_token(self, length: int, parameters: int) -> int:
        """Model FLOPs of forward and backward: 6N + 12LHQT, full attention (PaLM, arXiv 2204.02311, appendix B)."""
        return 6 * parameters + 12 * self.layers * self.dim * length


class Transformer(nn.Module):
    """Tokens (B, T) to logits (B, T, vocabulary). A stage of a pipeline holds `layers` only of its own.

    `first` and `last`: whether it embeds the tokens, and whether it ends in logits.
    """

    def __init__(
        self, shape: ModelShape, layers: range | None = None, *, first: bool = True, last: bool = True
    ) -> None:
        super().__init__()
        layers = range(shape.layers) if layers is None else layers
        self.embedding = nn.Embedding(shape.vocabulary, shape.dim) if first else None
        self.layers = nn.ModuleDict({str(i): Block(shape) for i in layers})
        self.norm = nn.RMSNorm(shape.dim, shape.norm_eps) if last else None
        self.output = nn.Linear(shape.dim, shape.vocabulary, bias=False) if last else None

    def forward(self, x: Tensor) -> Tensor:
        """Logits; between stages of a pipeline the features (B, T, D)."""
        if self.embedding is not None:
            x = self.embedding(x)
        for layer in self.layers.values():
            x = layer(x)
        if self.norm is not None and self.output is not None:
            x = self.output(self.norm(x))
        return x

    def initialise(self, seed: int) -> None:
        """The same weights for one seed, whatever the number of ranks and stages: each tensor from its own generator."""
        for name, parameter in sorted(self.named_parameters()):
            spread = 1.0 if name.startswith("embedding") else 0.02
            key = sum(ord(letter) * 31**i for i, letter in enumerate(name)) % 2**31
            generator = torch.Generator().manual_seed(seed * 1_000_003 + key)
            if "norm" in name:
                nn.init.ones_(parameter)
            else:
                nn.init.normal_(parameter, 0.0, spread, generator=generator)


class Block(nn.Module):
    """Attention and feed-forward, each behind a norm and added to what came in."""

    def __init__(self, shape: ModelShape) -> None:
        super().__init__()
        self.attention_norm = nn.RMSNorm(shape.dim, shape.norm_eps)
        self.attention = Attention(shape)
        self.feed_forward_norm = nn.RMSNorm(shape.dim, shape.norm_eps)
        self.feed_forward = FeedForward(shape)

    def forward(self, x: Tensor) -> Tensor:
        """Features (B, T, D) to the same shape."""
        x = x + self.attention(self.attention_norm(x))
        return x + self.feed_forward(self.feed_forward_norm(x))


class Attention(nn.Module):
    """Causal grouped-query attention. Heads are counted from the tensors, so that they may be sharded over ranks."""

    def __init__(self, shape: ModelShape) -> None:
        super().__init__()
        self.head_dim = shape.dim // shape.heads
        self.rope_base = shape.rope_base
        width = shape.kv_heads * self.head_dim
        self.query = nn.Linear(shape.dim, shape.dim, bias=False)
        self.key = nn.Linear(shape.dim, width, bias=False)
        self.value = nn.Linear(shape.dim, width, bias=False)
        self.output = nn.Linear(shape.dim, shape.dim, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Features (B, T, D) to the same shape."""
        batch, length, _ = x.shape
        query, key, value = (
            project(x).view(batch, length, -1, self.head_dim).transpose(1, 2)
            for project in (self.query, self.key, self.value)
        )
        cos, sin = rotary(length, self.head_dim, self.rope_base, x.device)
        query, key = rotate(query, cos, sin), rotate(key, cos, sin)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
        return self.output(mixed.transpose(1, 2).reshape(batch, length, -1))


class FeedForward(nn.Module):
    """SwiGLU (arXiv 2002.05202): down(silu(gate(x)) * up(x))."""

    def __init__(self, shape: ModelShape) -> None:
        super().__init__()
        self.gate = nn.Linear(shape.dim, shape.hidden, bias=False)
        self.up = nn.Linear(shape.dim, shape.hidden, bias=False)
        self.down = nn.Linear(shape.hidden, shape.dim, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Features (B, T, D) to the same shape."""
        return self.down(F.silu(self.gate(x)) * self.up(x))


def rotary(length: int, head_dim: int, base: float, device: torch.device) -> tuple[Tensor, Tensor]:
    """Cosine and sine (T, head_dim/2) of the rotary position embedding (arXiv 2104.09864)."""
    frequencies = base ** (-torch.arange(0, head_dim, 2, device=device) / head_dim)
    angles = torch.outer(torch.arange(length, device=device), frequencies)
    return angles.cos(), angles.sin()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn each pair (x[i], x[i + head_dim/2]) of (B, heads, T, head_dim) by its angle."""
    half = x.shape[-1] // 2
    left, right = x[..., :half].float(), x[..., half:].float()
    return torch.cat((left * cos - right * sin, right * cos + left * sin), dim=-1).type_as(x)
