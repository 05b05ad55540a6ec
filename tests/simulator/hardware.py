"""The devices of a simulated job, as Kineto's `deviceProperties` describe them."""

from __future__ import annotations

from collections.abc import Mapping

from rankscope.simulator.scenario import FaultKind, Scenario

Properties = Mapping[str, object]
H100: Properties = {
    "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 85_014_020_096, "computeMajor": 9, "computeMinor": 0,
    "maxThreadsPerBlock": 1024, "warpSize": 32, "numSms": 132,
}  # fmt: skip
V100: Properties = {
    "name": "Tesla V100-SXM2-32GB", "totalGlobalMem": 34_089_730_048, "computeMajor": 7, "computeMinor": 0,
    "maxThreadsPerBlock": 1024, "warpSize": 32, "numSms": 80,
}  # fmt: skip


def properties(scenario: Scenario) -> Properties:
    """What the job's devices are."""
    return V100 if scenario.has(FaultKind.NO_TENSOR_CORES) else H100
