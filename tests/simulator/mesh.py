"""The process groups of a job, and how long a collective's transfer takes in each."""

from __future__ import annotations

from dataclasses import dataclass

from rankscope.simulator.engine import Group
from rankscope.simulator.scenario import FaultKind, Scenario

ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER = "allreduce", "_allgather_base", "_reduce_scatter_base"


@dataclass(frozen=True, slots=True)
class Mesh:
    """Which groups a job has: one of all ranks; for hsdp also one a host, and one across hosts for each local rank."""

    scenario: Scenario

    def world(self) -> Group:
        """All ranks."""
        return Group("0", "default_pg", tuple(range(self.scenario.ranks)))

    def shard(self, rank: int) -> Group:
        """The ranks that hold one copy of the parameters together with this one."""
        job = self.scenario
        if job.sharding != "hsdp":
            return self.world()
        first = job.host(rank) * job.ranks_per_host
        return Group(str(1 + job.host(rank)), "mesh_dp_shard", tuple(range(first, first + job.ranks_per_host)))

    def replicas(self, rank: int) -> Group:
        """The ranks that hold the same shard as this one, one on each host."""
        job = self.scenario
        hosts, place = job.ranks // job.ranks_per_host, rank % job.ranks_per_host
        return Group(str(1 + hosts + place), "mesh_dp_replicate", tuple(range(place, job.ranks, job.ranks_per_host)))

    def groups(self, rank: int) -> tuple[Group, ...]:
        """The groups this rank is a member of."""
        if self.scenario.sharding != "hsdp":
            return (self.world(),)
        return (self.world(), self.shard(rank), self.replicas(rank))

    def transfer_ns(self, group: Group, collective: str, size: int, collectives_per_step: int) -> int:
        """Time from the last arrival to the end: latency, bytes over bus bandwidth, and what slow links add."""
        job, n = self.scenario, len(group.ranks)
        factor = (n - 1) / n * (2 if collective == ALL_REDUCE else 1)
        healthy = job.link_latency_ns + round(size * factor * 1e9 / job.bus_bytes_per_s)
        late = sum(fault.amount_ns for fault in job.faults if fault.kind is FaultKind.LATE_COMMUNICATION)
        return (late // collectives_per_step or healthy) + job.link_ns(group.name) // collectives_per_step
