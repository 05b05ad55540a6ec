"""What one rank has allocated on its device: parameters and optimizer state, and activations while they are needed."""

from __future__ import annotations

from itertools import accumulate

from rankscope.simulator.programs.pipeline import schedule
from rankscope.simulator.recording import Allocation
from rankscope.simulator.scenario import FaultKind, Scenario

PEAK_BYTES = 32_000_000_000  # at the end of the forward pass
KEPT_SHARE = 0.5  # of the peak: what outlives the step
FILLED_SHARE = 0.95  # of what is reserved, allocated at the peak


class Memory:
    """The caching allocator of one rank. It is recorded, as with `profile_memory=True`, where a fault concerns it."""

    def __init__(self, scenario: Scenario, rank: int) -> None:
        full = scenario.amount_bytes(FaultKind.FULL_MEMORY, rank)
        usual = round(full * FILLED_SHARE) if full else PEAK_BYTES
        peak = usual + scenario.amount_bytes(FaultKind.UNEVEN_MEMORY, rank)
        self.is_recorded = scenario.has(FaultKind.FULL_MEMORY) or scenario.has(FaultKind.UNEVEN_MEMORY)
        self.reserved = full or round(peak / FILLED_SHARE)
        passes = accumulate(-1 if part.backward else 1 for part in schedule(scenario, rank))
        self._most = max(passes) * scenario.layers  # layers whose activations are there at once
        self._kept = round(peak * KEPT_SHARE)
        self._activations = peak - self._kept
        self._layers = 0
        self._allocated = self._kept

    def after_layer(self, at_ns: int, *, backward: bool) -> Allocation:
        """Keep the layer's activations until the backward pass has used them."""
        self._layers += -1 if backward else 1
        before = self._allocated
        self._allocated = self._kept + self._activations * self._layers // self._most
        return Allocation(at_ns, self._allocated - before, self._allocated, self.reserved)
