"""What devices can do at best, as their makers publish it: dense tensor-core peaks in bfloat16, without sparsity."""

from __future__ import annotations

from typing import Final

# dense bfloat16 TFLOP/s. Sources: the makers' data sheets (NVIDIA A100, H100 SXM, H200, B200; AMD MI300X)
BF16_TFLOPS: Final = {
    "A100": 312.0,
    "H100": 989.0,
    "H200": 989.0,
    "B200": 2_250.0,
    "MI300X": 1_307.0,
}


def bf16_tflops(device: str) -> float | None:
    """The peak of a device of this name; None where it is not in the table."""
    return next((peak for name, peak in BF16_TFLOPS.items() if name.lower() in device.lower()), None)
