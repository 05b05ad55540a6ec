"""How durations scatter when the same work is done again: measured shapes, scaled to the spread a scenario asks for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Quantiles = Sequence[tuple[float, float]]  # (share of the draws below, figure), straight lines between

# Duration over the median of the same place in the other steps: the median over four training traces among Holistic
# Trace Analysis' samples (V100 and A100, 3 to 6 steps each). Kernels of 60 us and more that no collective overlaps,
# 2,163; operators of 10 us and more, 55,887; cudaLaunchKernel, 21,224. What blocks, and first calls, are left out.
KERNEL: Quantiles = (
    (0, 0.922), (0.01, 0.964), (0.05, 0.986), (0.25, 0.998), (0.5, 1.0),
    (0.75, 1.003), (0.95, 1.0235), (0.99, 1.089), (0.995, 1.145), (1, 1.44),
)  # fmt: skip
HOST: Quantiles = (
    (0, 0.30), (0.01, 0.82), (0.05, 0.90), (0.25, 0.968), (0.5, 1.0),
    (0.75, 1.032), (0.95, 1.24), (0.99, 1.83), (1, 3.0),
)  # fmt: skip
CALL: Quantiles = (
    (0, 0.36), (0.01, 0.79), (0.05, 0.866), (0.25, 0.995), (0.5, 1.0),
    (0.75, 1.006), (0.95, 1.24), (0.99, 2.0), (1, 6.6),
)  # fmt: skip
# From one kernel's end to the next one's start on its stream, launched long before: 729 gaps of the one A100 trace
# among them that has nanoseconds.
GAP_NS: Quantiles = (
    (0, 960), (0.01, 991), (0.05, 1_023), (0.25, 1_057), (0.5, 1_152),
    (0.75, 1_248), (0.95, 6_753), (0.99, 11_097), (1, 23_807),
)  # fmt: skip
BLOCK = 1_024  # draws at a time: one at a time costs five times as much


class Shape:
    """Draws from quantiles, straight lines between them."""

    def __init__(self, quantiles: Quantiles, seed: Sequence[int]) -> None:
        self._random = np.random.default_rng(seed)
        self._shares, self._figures = np.array(quantiles, np.float64).T
        self._drawn: list[float] = []
        widths, low, high = np.diff(self._shares), self._figures[:-1], self._figures[1:]
        self.mean = float((widths * (low + high) / 2).sum())
        self.deviation = float(np.sqrt((widths * (low**2 + low * high + high**2) / 3).sum() - self.mean**2))

    def draw(self) -> float:
        """The next draw."""
        if not self._drawn:
            values: npt.NDArray[np.float64] = np.interp(self._random.random(BLOCK), self._shares, self._figures)
            self._drawn = values.tolist()
        return self._drawn.pop()

    def standard(self) -> float:
        """The next draw as deviations from the mean: mean 0, standard deviation 1."""
        return (self.draw() - self.mean) / self.deviation


class Noise:
    """One rank's noise, a stream of draws for each shape."""

    def __init__(self, seed: int, rank: int) -> None:
        self._kernel, self._host, self._call, self._gap = (
            Shape(quantiles, (seed, rank, number)) for number, quantiles in enumerate((KERNEL, HOST, CALL, GAP_NS), 100)
        )

    def kernel(self, ns: int, spread: float) -> int:
        """A kernel's duration; `spread`: standard deviation, relative. Never less than half."""
        return max(ns // 2, round(ns * (1 + spread * self._kernel.standard())))

    def host(self, ns: int, spread: float) -> int:
        """How long the host works on something; `spread` as for kernels."""
        return max(ns // 2, round(ns * (1 + spread * self._host.standard())))

    def call(self, ns: int) -> int:
        """A runtime call's duration."""
        return round(ns * self._call.draw())

    def gap_ns(self) -> int:
        """Between two kernels of one stream."""
        return round(self._gap.draw())
