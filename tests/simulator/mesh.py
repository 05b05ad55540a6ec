"""The process groups of a job, and how long a collective's transfer takes in each."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from rankscope.simulator.recording import Group
from rankscope.simulator.scenario import FaultKind, Scenario

ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER = "allreduce", "_allgather_base", "_reduce_scatter_base"
ALL_TO_ALL, SEND, RECEIVE = "all_to_allv", "send", "recv"
NEAR, FAR = ("mesh_tp", "mesh_ep"), ("mesh_pp",)  # groups within a host, and between stages


class Mesh:
    """Which groups a job has. A rank is `(stage * data + replica) * tensor + place`, as Megatron counts by default.

    One group of all ranks serves as the data group where all ranks are data ranks; every other axis of more than one
    rank has groups of its own.
    """

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.world = Group("0", "default_pg", tuple(range(scenario.ranks)))

    def shard(self, rank: int) -> Group:
        """The ranks that hold one copy of the parameters together with this one; all data ranks, but for hsdp."""
        return self._of[rank].get("mesh_dp_shard", self.world)

    def replicas(self, rank: int) -> Group:
        """For hsdp: the ranks that hold the same shard as this one."""
        return self._of[rank]["mesh_dp_replicate"]

    def tensor(self, rank: int) -> Group:
        """The ranks that share this one's layers."""
        return self._of[rank]["mesh_tp"]

    def pipeline(self, rank: int) -> Group:
        """The stages of this rank's pipeline, first to last."""
        return self._of[rank]["mesh_pp"]

    def experts(self, rank: int) -> Group:
        """The data ranks that hold different experts."""
        return self._of[rank]["mesh_ep"]

    def expert_replicas(self, rank: int) -> Group | None:
        """The data ranks that hold the same experts as this one; None: no other does."""
        return self._of[rank].get("mesh_ep_replicate")

    def groups(self, rank: int) -> tuple[Group, ...]:
        """The groups this rank is a member of, in the order in which they were made."""
        return (self.world, *self._of[rank].values())

    def transfer_ns(self, group: Group, collective: str, size: int, collectives_per_step: int) -> int:
        """Time from the last arrival to the end: latency, bytes over bus bandwidth, and what slow links add."""
        job, n = self.scenario, len(group.ranks)
        factor = 1.0 if collective in (SEND, RECEIVE) else (n - 1) / n * (2 if collective == ALL_REDUCE else 1)
        latency, rate = job.link_latency_ns, job.bus_bytes_per_s
        if group.description in NEAR:
            latency, rate = job.near_latency_ns, job.near_bytes_per_s
        elif group.description in FAR:
            rate = job.far_bytes_per_s
        healthy = latency + round(size * factor * 1e9 / rate)
        late = sum(fault.amount_ns for fault in job.faults if fault.kind is FaultKind.LATE_COMMUNICATION)
        return (late // collectives_per_step or healthy) + job.link_ns(group.name, group.ranks) // collectives_per_step

    @cached_property
    def _of(self) -> list[dict[str, Group]]:
        """Each rank's groups by description."""
        job = self.scenario
        of: list[dict[str, Group]] = [{} for _ in range(job.ranks)]
        made = 0
        for description, members in self._axes():
            for ranks in members:
                made += 1
                group = Group(str(made), description, tuple(ranks))
                for rank in ranks:
                    of[rank][description] = group
        return of

    def _axes(self) -> list[tuple[str, list[Sequence[int]]]]:
        """The groups beside the world's: (description, members of each)."""
        job = self.scenario
        every, data = range(job.ranks), self._data()
        axes: list[tuple[str, list[Sequence[int]]]] = []
        if job.sharding == "hsdp":
            axes.append(("mesh_dp_shard", [r[i : i + job.shard] for r in data for i in range(0, job.data, job.shard)]))
            axes.append(("mesh_dp_replicate", [r[i :: job.shard] for r in data for i in range(job.shard)]))
        elif job.data < job.ranks:
            axes.append(("mesh_dp_shard", data))
        if job.tensor > 1:
            axes.append(("mesh_tp", [every[i : i + job.tensor] for i in range(0, job.ranks, job.tensor)]))
        if job.pipeline > 1:
            stage = job.ranks // job.pipeline
            axes.append(("mesh_pp", [every[i::stage] for i in range(stage)]))
        if job.expert > 1:
            axes.append(("mesh_ep", [r[i : i + job.expert] for r in data for i in range(0, job.data, job.expert)]))
        if 1 < job.expert < job.data:
            axes.append(("mesh_ep_replicate", [r[i :: job.expert] for r in data for i in range(job.expert)]))
        return axes

    def _data(self) -> list[Sequence[int]]:
        """The data ranks of each place of each stage."""
        job = self.scenario
        stage = job.ranks // job.pipeline
        return [
            range(first + place, first + stage, job.tensor)
            for first in range(0, job.ranks, stage)
            for place in range(job.tensor)
        ]
