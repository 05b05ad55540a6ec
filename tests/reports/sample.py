"""Diagnoses built by hand, with sums that hold, for the tests of reports and for looking at pages."""

from __future__ import annotations

import random
from dataclasses import replace

import sample_recording as recorded

from rankscope.analyzers.findings import (
    Diagnosis,
    EventRef,
    Evidence,
    Finding,
    InconclusiveRule,
    RuleOutcomes,
    Signal,
    SkippedRule,
)
from rankscope.analyzers.measured import (
    ClockFit,
    CollectivesReport,
    Communication,
    Compute,
    FileReport,
    GroupTraffic,
    Host,
    HtaFigures,
    Idle,
    InputOutput,
    KernelTotal,
    OtherRun,
    Peers,
    Row,
    RunFacts,
    StepLabel,
    TbPluginFigures,
    TraceLensFigures,
    WaitedFor,
)
from rankscope.analyzers.verdict import verdict

MS = 1_000_000
HOSTILE = (
    "</script><script>alert(1)</script>",
    "<!-- <img src=x onerror=alert(1)> -->",
    "a\u2028b\u2029c",
    "\x1b[31mred\x1b]8;;http://evil\x07link\x1b]8;;\x07",
    "abc\u202egnirts\u202c",
    '" onmouseover="alert(1)" x=\'',
    "[bold red]markup[/bold red] [link=http://evil]x[/link]",
    "lone \ud800 surrogate",
    "null \x00 and bell \x07",
)
SKIPPED = [
    SkippedRule("checkpoint-stall", "no checkpoint span was recorded", "with rankscope.profile() as session:"),
    SkippedRule("allocator-retries", "no runtime calls of the allocator", "activities=[CPU, CUDA]"),
]
SIGNALS = [
    Signal("step marks", "where steps begin and end", [], "profiler.step()  # once per step"),
    Signal(
        "launch calls",
        "which host call asked for a kernel",
        [],
        "activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]",
    ),
    Signal(
        "garbage collection",
        "pauses of Python's collector",
        [],
        "experimental_config=_ExperimentalConfig(record_python_gc_info=True)",
    ),
]


def row(rank: int, step: StepLabel, *, device: int | None = 0, partial: bool = False, **parts: int) -> Row:
    """A row whose parents and window follow from its parts."""

    def pick(*names: str) -> dict[str, int]:
        return {name: parts.get(name, 0) for name in names}

    compute = Compute(**pick("kernel_ns", "device_copy_ns"))
    comm = pick("wait_ns", "transfer_ns", "unsplit_ns")
    io = pick("data_loading_ns", "checkpoint_ns", "host_to_device_ns", "device_to_host_ns")
    host = Host(**pick("launch_ns", "sync_ns", "allocator_ns", "gc_ns", "other_ns"))
    idle = Idle(**pick("kernel_gap_ns", "unexplained_ns"))
    sums = {
        "compute_ns": compute.kernel_ns + compute.device_copy_ns,
        "communication_ns": sum(comm.values()),
        "io_ns": sum(io.values()),
        "host_ns": host.launch_ns + host.sync_ns + host.allocator_ns + host.gc_ns + host.other_ns,
        "idle_ns": idle.kernel_gap_ns + idle.unexplained_ns,
    }
    return Row(
        rank=rank,
        device=device,
        step=step,
        window_ns=sum(sums.values()),
        partial=partial,
        compute=compute,
        communication=Communication(**comm, overlapped_ns=parts.get("overlapped_ns", 0), host_late_ns=0),
        io=InputOutput(**io, overlapped_ns=0),
        host=host,
        idle=idle,
        **sums,
    )


def straggling(ranks: int, steps: int, late: int = 5, seed: int = 7) -> Diagnosis:
    """`late` computes longer in every step and the others wait; step 0 is warm-up, the last one is cut off."""
    chance = random.Random(seed)
    rows: list[Row] = []
    for rank in range(ranks):
        whole: dict[str, int] = {}
        for step in range(steps):
            parts = _parts(chance, slow=rank == late, scale=3 if step == 0 else 1)
            for name, ns in parts.items():
                whole[name] = whole.get(name, 0) + ns
            rows.append(row(rank, step, partial=step == steps - 1, **parts))
        rows.append(row(rank, None, **whole))
        rows.append(row(rank, "before", other_ns=chance.randrange(MS), kernel_ns=3 * MS))
    usable = list(range(1, steps - 1))
    run = RunFacts(
        path="traces/llama-7b",
        id="llama-7b-20261130T2210",
        world_size=ranks,
        ranks=list(range(ranks)),
        missing_ranks=[],
        backend="nccl",
        devices=["NVIDIA H100 80GB HBM3"],
        steps=steps,
        wall_ns=max(r.window_ns for r in rows if r.step is None),
        files=[
            FileReport(f"rank{r}.json.gz", r, "distributedInfo", 210_000 + r, int(r == 2) * 7, 0, False)
            for r in range(ranks)
        ],
        started_unix_ns=1_764_540_000_000_000_000,
        device_count=ranks,
        usable_steps=usable,
        median_step_ns=210 * MS,
    )
    return finished(
        Diagnosis(
            run=run,
            other_runs=[
                OtherRun("llama-7b-20261130T1900", list(range(ranks)), 1_764_530_000_000_000_000, ["old/rank0.json"])
            ],
            attribution=rows,
            collectives=_collectives(ranks, late, len(usable)),
            clock=_clocks(ranks),
            kernels=_kernels(),
            peers=[_peers(rank) for rank in range(ranks)],
            findings=[_late_finding(late, usable), _data_finding(usable)],
            rules=RuleOutcomes(
                ["exposed-collectives", "sync-points"], SKIPPED, [InconclusiveRule("slow-link", "one group only")], []
            ),
            warnings=["rank2.json.gz: 7 events set aside (duration beyond belief)."],
            coverage=[replace(signal, ranks=list(range(ranks)) if i < 2 else []) for i, signal in enumerate(SIGNALS)],
        )
    )


def finished(diagnosis: Diagnosis) -> Diagnosis:
    """With the verdict that follows from the rest."""
    return replace(diagnosis, verdict=verdict(diagnosis))


def _parts(chance: random.Random, *, slow: bool, scale: int) -> dict[str, int]:
    def about(ms: float) -> int:
        return int(ms * MS * scale * chance.uniform(0.97, 1.03))

    return {
        "kernel_ns": about(168 if slow else 130),
        "device_copy_ns": about(1.4),
        "wait_ns": 0 if slow else about(38),
        "transfer_ns": about(14),
        "data_loading_ns": about(9),
        "host_to_device_ns": about(2.2),
        "launch_ns": about(3),
        "sync_ns": about(1.2),
        "other_ns": about(6),
        "kernel_gap_ns": about(4),
        "overlapped_ns": about(60),
    }


def _late_finding(late: int, steps: list[int]) -> Finding:
    return Finding(
        rule="straggler-rank",
        kind="time",
        severity="critical",
        message=f"Rank {late} arrives last and makes the other ranks wait 38.0 ms of every 210 ms step.",
        ranks=[late],
        steps=steps,
        cost_ns=38 * MS,
        cause="compute",
        confidence=0.97,
        evidence=[
            Evidence(
                "waiting it ends alone",
                38 * MS,
                "ns",
                [EventRef(late, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 12_345_678, 4 * MS)],
            ),
            Evidence("last to arrive", 57, "count"),
            Evidence("compute over its peers' median", 1.29, "share"),
            Evidence("steps in which it was last", "all of them", "text"),
        ],
        advice=f"Compare the clocks, temperature and power cap of rank {late}'s device with its peers', then swap it.",
        where=f"Rank {late}, backward pass, all-reduce of group 0.",
        expected="The step falls from 210 ms to about 172 ms (18 %).",
        gpu_hours_per_day=34.7,
        money_per_day=86.9,
    )


def _data_finding(steps: list[int]) -> Finding:
    return Finding(
        rule="data-starved",
        kind="time",
        severity="note",
        message="The devices starve 9.00 ms a step while the training thread waits for the data loader.",
        ranks=[],
        steps=steps,
        cost_ns=9 * MS,
        cause=None,
        confidence=0.9,
        evidence=[
            Evidence("median starved in the loader", 9 * MS, "ns"),
            Evidence("share of the step", 0.043, "share"),
        ],
        advice="Raise num_workers and prefetch_factor; keep workers alive with persistent_workers=True.",
        where="All ranks, at the begin of the step.",
        expected="Up to 9.00 ms a step (4.29 %).",
        gpu_hours_per_day=8.2,
    )


def _collectives(ranks: int, late: int, steps: int) -> CollectivesReport:
    waiters = [rank for rank in range(ranks) if rank != late]
    each = 38 * MS * steps
    return CollectivesReport(
        matched=57,
        unmatched=3,
        waited_ns={str(rank): each for rank in waiters},
        caused_ns={str(late): each * len(waiters)},
        alone_ns={str(late): each},
        hidden_wait_ns={},
        last_arrivals={str(late): 55, "0": 2},
        by_group=[
            GroupTraffic(
                "default_pg", list(range(ranks)), "all_reduce", 25_000_000, 48, each, 14 * MS * steps, 1.21e11
            ),
            GroupTraffic("default_pg", list(range(ranks)), "all_gather", None, 9, 0, MS, None),
        ],
        waited_for=[WaitedFor(rank, late, each) for rank in waiters],
    )


def _clocks(ranks: int) -> list[ClockFit]:
    clocks = [ClockFit(0, "node-a", 0, 0.0, 900, "reference")]
    for rank in range(1, ranks):
        same = rank < ranks // 2
        clocks.append(
            ClockFit(
                rank,
                "node-a" if same else "node-b",
                0 if same else 11_562_000_000,
                0.0 if same else 41.0,
                8_300,
                "shared_clock" if same else "ends",
            )
        )
    return clocks


def _kernels() -> list[KernelTotal]:
    name = (
        "void at::native::vectorized_elementwise_kernel<4, at::native::(anonymous namespace)::bfloat16_copy_kernel_cuda"
        + "(int)" * 30
    )
    return [
        KernelTotal(
            "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1",
            "compute",
            4800,
            3200 * MS,
            666_666.7,
            410_000,
            910_000,
        ),
        KernelTotal(
            "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
            "communication",
            456,
            900 * MS,
            1_973_684.2,
            80_000,
            41 * MS,
        ),
        KernelTotal(name, "compute", 9100, 420 * MS, 46_153.8, 1_800, 220_000),
        KernelTotal("Memcpy HtoD (Pinned -> Device)", "host_to_device", 96, 17 * MS, 177_083.3, 1_200, 2 * MS),
        KernelTotal("Memset (Device)", "device_copy", 800, 11 * MS, 13_750.0, 900, 30_000),
    ]


def _peers(rank: int) -> Peers:
    return Peers(
        rank,
        0,
        TraceLensFigures(1_200 * MS, 800 * MS, 310 * MS, 10 * MS, 1_120 * MS, 80 * MS),
        HtaFigures(1_200 * MS, 800 * MS, 320 * MS, 80 * MS, 0.54),
        TbPluginFigures(790 * MS, 12 * MS, 2 * MS, 300 * MS, 40 * MS, 50 * MS, 5 * MS, 1 * MS),
    )


def empty() -> Diagnosis:
    """A file that held no timed event."""
    run = RunFacts(
        "nothing.json", "nothing", None, [], [], None, [], 0, 0, [FileReport("nothing.json", 0, "order", 0, 0, 0, True)]
    )
    none = CollectivesReport(0, 0, {}, {}, {}, {}, {}, [])
    return finished(
        Diagnosis(
            run=run,
            other_runs=[],
            attribution=[],
            collectives=none,
            clock=[],
            kernels=[],
            peers=[],
            findings=[],
            rules=RuleOutcomes([], SKIPPED, [], []),
            warnings=["nothing.json: no timed event."],
        )
    )


def single() -> Diagnosis:
    """One rank of eight, no finding."""
    whole = straggling(1, 5, late=9)
    run = replace(whole.run, world_size=8, missing_ranks=list(range(1, 8)), device_count=1)
    return finished(
        replace(
            whole,
            run=run,
            findings=[],
            collectives=empty().collectives,
            rules=RuleOutcomes(["data-starved"], SKIPPED, [], []),
        )
    )


def cpu_only(ranks: int = 4) -> Diagnosis:
    """Gloo on CPUs: no device, no idle, no peers' figures."""
    whole = straggling(ranks, 9, late=2)
    rows = [
        row(
            r.rank,
            r.step,
            device=None,
            partial=r.partial,
            kernel_ns=r.compute.kernel_ns,
            wait_ns=r.communication.wait_ns,
            transfer_ns=r.communication.transfer_ns,
            data_loading_ns=r.io.data_loading_ns,
            other_ns=r.host.other_ns,
        )
        for r in whole.attribution
    ]
    findings = [replace(f, gpu_hours_per_day=None, money_per_day=None) for f in whole.findings]
    run = replace(whole.run, backend="gloo", devices=[], device_count=0)
    return finished(
        replace(
            whole,
            run=run,
            attribution=rows,
            findings=findings,
            kernels=[],
            peers=[Peers(r, None, None, None, None) for r in range(ranks)],
        )
    )


def hostile() -> Diagnosis:
    """Every text that can come out of a trace, a path or a rule is an attack."""
    whole = straggling(8, 6)
    text = " ".join(HOSTILE)
    kernels = [replace(whole.kernels[0], name=name) for name in (*HOSTILE, "K" * 5000, "界" * 300)]
    files = [replace(f, path=f"{HOSTILE[f.rank]}/{f.path}") for f in whole.run.files]
    bad = replace(
        whole.findings[0],
        message=text,
        where=text,
        advice=text,
        expected=text,
        evidence=[Evidence(text, text, "text", [EventRef(0, text, 1, 2)])],
    )
    groups = [replace(group, group=text, collective=HOSTILE[0]) for group in whole.collectives.by_group]
    return finished(
        replace(
            whole,
            run=replace(whole.run, path=text, id=text, backend=text, devices=list(HOSTILE), files=files),
            other_runs=[OtherRun(text, [0], None, [text])],
            kernels=kernels,
            findings=[bad],
            collectives=replace(whole.collectives, by_group=groups),
            clock=[replace(clock, host=text) for clock in whole.clock],
            rules=RuleOutcomes(
                ["slow-link"], [SkippedRule("sync-points", text, text)], [InconclusiveRule("x", text)], []
            ),
            warnings=list(HOSTILE),
            coverage=[Signal(text, text, [], text)],
        )
    )


EVERY = {
    "single": single,
    "straggler": lambda: straggling(8, 6),
    "many": lambda: straggling(64, 20),
    "cpu": cpu_only,
    "empty": empty,
    "hostile": hostile,
    "pulse": recorded.pulse,
    "pulse of many": recorded.pulse_of_many,
    "pulse, hostile": lambda: recorded.hostile_pulse(HOSTILE),
    "no step": recorded.no_step,
}
