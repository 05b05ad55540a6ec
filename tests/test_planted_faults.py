"""Every planted fault is found, first of its kind, named and priced, and nobody else is accused."""

from __future__ import annotations

import importlib
import inspect
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import rankscope
from rankscope.analyzers.findings import Finding
from rankscope.analyzers.rules import load_rules
from rankscope.simulator import Fault, Scenario, faults, simulate

MS, GB = 1_000_000, 1_000_000_000
# What a rule cannot know of the amount: the host's lead over the device that a fault uses up, launches and copies that
# come with it, and what was there before. The device computes for 20 ms a step, of which a planted 4 ms is a fifth.
WITHIN = 0.35


@dataclass(frozen=True)
class Case:
    """A fault, the job it is planted in, and the ranks that a finding must name: by default those that have it."""

    fault: Fault
    job: dict[str, Any] = field(default_factory=dict)
    named: tuple[int, ...] | None = None

    @property
    def ranks(self) -> list[int]:
        return sorted(self.fault.ranks if self.named is None else self.named)


PLANTED = {
    "slow compute": Case(faults.slow_compute(5, 4 * MS)),
    "slow host": Case(faults.slow_host((4, 5, 6, 7), 4 * MS), {"ranks_per_host": 4}),
    "slow tensor group": Case(faults.slow_host((4, 5), 4 * MS), {"tensor": 2}),
    "slower since": Case(faults.slower_since(4 * MS, since=16), {"steps": 30}),
    "recurring pause": Case(faults.recurring_pause(40 * MS, every=6), {"steps": 40}),
    "slow shard": Case(faults.slow_shard(5, 4 * MS)),
    "host pause": Case(faults.host_pause(5, 4 * MS)),
    "slow loader": Case(faults.slow_loader(6 * MS)),
    "sync points": Case(faults.sync_points(6 * MS)),
    "checkpoint": Case(faults.checkpoint(60 * MS, every=3)),
    "checkpoint of one": Case(faults.checkpoint_of_one(0, 60 * MS, every=3), named=()),
    "pageable copy": Case(faults.pageable_copy(6 * MS)),
    "device malloc": Case(faults.device_malloc(6 * MS)),
    "slow python": Case(faults.slow_python(16 * MS)),
    "late communication": Case(faults.late_communication(6 * MS)),
    "late host, ddp": Case(faults.late_host(4 * MS)),
    "late host, fsdp": Case(faults.late_host(4 * MS), {"sharding": "fsdp"}),
    "small messages": Case(faults.small_messages(4 * MS)),
    "gloo": Case(faults.cpu_backend(20 * MS)),
    "no communication": Case(faults.no_communication()),
    "uneven experts": Case(faults.uneven_experts((2, 6), 4 * MS), {"expert": 4}),
    "DataParallel": Case(faults.data_parallel(8 * MS), {"ranks": 4}),
    "heavy stage": Case(faults.heavy_stage((6, 7), 8 * MS), {"pipeline": 4, "micro_batches": 8, "layers": 2}),
    "late compile": Case(faults.late_compile(100 * MS)),
    "indexing loop": Case(faults.indexing_loop(6 * MS)),
    "tiny kernels": Case(faults.tiny_kernels(4 * MS)),
    "very many tiny kernels": Case(faults.tiny_kernels(30 * MS)),
    "zero grad": Case(faults.zero_grad(4 * MS)),
    "single tensor": Case(faults.single_tensor_optimizer(2 * MS)),
    "fp32": Case(faults.full_fp32(80 * MS)),
    "fp32 on V100": Case(faults.no_tensor_cores(60 * MS)),
    "some products unaligned": Case(faults.unaligned_matmul(3 * MS)),
    "all products unaligned": Case(faults.unaligned_matmul(16 * MS)),
    "profiler": Case(faults.profiler(4 * MS)),
    "one step of warm-up": Case(faults.warm_up(60 * MS, until=3)),
    "two steps of warm-up": Case(faults.warm_up(60 * MS, until=4)),
    "full memory": Case(faults.full_memory(80 * GB)),
    "uneven memory": Case(faults.uneven_memory(5, 20 * GB)),
}


def reads(rule: str) -> tuple[str, ...]:
    """What a rule judges from."""
    module = importlib.import_module(f"rankscope.analyzers.rules.{rule.replace('-', '_')}")
    return getattr(module, "READS", ("traces",))


def found_in(case: Case, folder: Path, steps: int = 10) -> list[Finding]:
    """What is found in a run with this fault."""
    job = {"ranks": 8, "steps": steps, "layers": 6, "seed": 3} | case.job
    simulate(Scenario(**job, faults=(case.fault,))).write(folder)
    diagnosis = rankscope.diagnose(folder, cache=False, jobs=1)
    assert diagnosis.rules.failed == []
    return diagnosis.findings


@pytest.mark.parametrize("case", PLANTED.values(), ids=PLANTED)
def test_a_planted_fault_is_found_named_and_priced(case: Case, tmp_path: Path) -> None:
    fault, found = case.fault, found_in(case, tmp_path)
    first = next((finding for finding in found if finding.rule == fault.rule), None)
    assert first is not None, [finding.message for finding in found]
    assert first == next(finding for finding in found if finding.kind == first.kind)
    named = {rank for finding in found if finding.rule == fault.rule for rank in finding.ranks}
    assert sorted(named) == case.ranks
    assert first.cause == fault.cause
    if first.cost_ns is not None:
        assert first.cost_ns == pytest.approx(fault.amount_ns / fault.every, rel=WITHIN)
    accused = [finding.message for finding in found if finding.ranks and finding.rule != fault.rule]
    assert accused == []


def test_every_rule_that_reads_traces_has_a_fault_that_it_must_find() -> None:
    planted = {make().rule for _, make in inspect.getmembers(faults, inspect.isfunction)}
    assert planted == {rule.id for rule in load_rules() if "traces" in reads(rule.id)}


def test_a_slow_network_card_slows_the_groups_between_hosts(tmp_path: Path) -> None:
    job = {"ranks": 16, "sharding": "hsdp", "ranks_per_host": 4}
    found = found_in(Case(faults.slow_network(6, 20 * MS), job), tmp_path, steps=8)
    assert [(f.rule, f.ranks) for f in found if f.ranks] == [("slow-link", [2, 6, 10, 14])]


@pytest.mark.parametrize("every", [2, 3])
def test_a_rank_that_is_slow_now_and_then_brings_nobody_else_under_suspicion(every: int, tmp_path: Path) -> None:
    """Whether it persists enough to be named itself is a matter of the sign test, not of this one."""
    found = found_in(Case(faults.slow_now_and_then(5, 8 * MS, every)), tmp_path, steps=16)
    assert [finding.message for finding in found if finding.ranks not in ([], [5])] == []


def test_memory_is_said_to_the_byte(tmp_path: Path) -> None:
    for number, (case, label) in enumerate(
        (
            (PLANTED["full memory"], "reserved at the peak of a step"),
            (PLANTED["uneven memory"], "allocated on it at the peak of a step"),
        )
    ):
        (found,) = (f for f in found_in(case, tmp_path / str(number), steps=4) if f.rule == case.fault.rule)
        values = {evidence.label: evidence.value for evidence in found.evidence}
        assert values[label] - values.get("median of its peers", 0) == case.fault.amount_bytes
