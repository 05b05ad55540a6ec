"""Tensors on devices are reduced through the CPU.

Why it matters: gloo copies device tensors to the host, sends them over TCP and copies them back; NCCL moves them from
device to device.
How it is measured: collectives of a CPU backend (gloo) in a process that computes on a device and shows no communication
on it, and the time in which the device waits for launches while they are in flight. The cost is the median over ranks
of the median over steps.
What to do: torch.distributed.init_process_group("nccl"), or "cpu:gloo,cuda:nccl" where CPU tensors are sent too.
"""

from __future__ import annotations

from collections.abc import Iterator

from rankscope.analyzers.analysis import Analysis
from rankscope.analyzers.coverage import need_launches
from rankscope.analyzers.findings import Evidence, Finding
from rankscope.analyzers.one_rank.collective_records import CollectiveRecords
from rankscope.analyzers.pricing import SILENT, of_the_step, step_share, time_finding

TITLE = "Wrong backend"
ON_DEVICE = 0  # collectives; source: presence of others only, as torch-tb-profiler's advice (pytorch/kineto, tb_plugin)


def check(analysis: Analysis) -> Iterator[Finding]:
    """Report the time for which devices wait for a CPU backend."""
    if not any(record.facts.has_device for record in analysis.records) and analysis.records:
        return  # a run on CPUs has the right backend
    need_launches(analysis)
    on_device = sum(len(record[CollectiveRecords]) for record in analysis.records)
    collectives, cost = analysis.cost_ns("cpu_collectives"), analysis.cost_ns("cpu_collective_ns")
    if on_device > ON_DEVICE or not collectives or step_share(analysis, cost) <= SILENT:
        return
    yield time_finding(
        analysis,
        message=f"Devices wait for collectives of a CPU backend {of_the_step(analysis, cost)}.",
        cost_ns=cost,
        evidence=[
            Evidence("waiting for launches during collectives on the CPU a step", round(cost), "ns"),
            Evidence("collectives on the CPU a step", round(collectives), "count"),
            Evidence("collectives on the device in the run", on_device, "count"),
        ],
        advice='torch.distributed.init_process_group("nccl"), or "cpu:gloo,cuda:nccl" where CPU tensors are sent too.',
        where="In gloo's collectives.",
    )
