"""The runs on which the rules are judged, drawn by seed: healthy and faulty jobs, simulated and spliced.

A delay is 10 to 40 % of the step as it is with the fault: what the step gets longer by. What is planted aims at that; a
delay that a pipeline's bubble or the overlap hides comes out smaller, and below 10 % it does not count.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import log2
from pathlib import Path
from typing import Any

from rankscope.simulator import Fault, Scenario, faults
from rankscope.simulator.model import compute_ns
from rankscope.simulator.splicing import PlantKind

GB = 1_000_000_000
CORPUS = Path(os.environ.get("RANKSCOPE_CORPUS") or Path(__file__).parents[1] / "../shared/corpus").resolve()
LEAST, MOST = 0.10, 0.40  # of the step
FEWEST_RANKS, MOST_RANKS, RARE = 8, 256, 2.2  # above 1 big runs are rarer than log-uniform, which they must be for time

# Tensor ranks divide a layer's parameters, and the activations that they exchange lie open.
DIVIDED: Mapping[str, Any] = {"layer_bytes": 4_194_304, "activation_bytes": 2_097_152}
# Ways of parallelising, with their weights. The numbers keep a healthy run's losses below what rules speak at.
WAYS: Sequence[tuple[int, Mapping[str, Any]]] = (
    (6, {}),
    (2, {"micro_batches": 3}),
    (1, {"cuda_graphs": True}),
    (1, {"contention": 0.2}),
    (1, {"checkpoint_every": 4, "evaluate_every": 5}),
    (4, {"sharding": "fsdp"}),
    (2, {"sharding": "fsdp", "prefetch": 2, "micro_batches": 2}),
    (4, {"sharding": "hsdp"}),
    (1, {"tensor": 8, **DIVIDED}),
    (1, {"tensor": 8, **DIVIDED, "sequence_parallel": True}),
    (1, {"tensor": 2, **DIVIDED}),
    (1, {"tensor": 2, **DIVIDED, "sharding": "fsdp", "sequence_parallel": True}),
    (1, {"tensor": 2, **DIVIDED, "sharding": "hsdp"}),
    (1, {"pipeline": 4, "micro_batches": 4}),
    (1, {"tensor": 2, **DIVIDED, "pipeline": 2, "micro_batches": 2}),
    (1, {"expert": 8, "layer_bytes": 8_388_608}),
    (1, {"expert": 4, "layer_bytes": 8_388_608}),
)


@dataclass(frozen=True)
class Run:
    """One run to be judged. `rule` None: healthy, so that nothing may be found."""

    name: str
    scenario: Scenario | None = None
    recorded: str = ""  # spliced runs: which recorded run
    plant: PlantKind | None = None  # spliced runs: what is planted; None: nothing
    plant_rank: int = 0
    share: float = 0.0  # of the step as it is with the fault; 0: the fault has no such size
    rule: str | None = None
    ranks: tuple[int, ...] = ()  # whom a finding must name
    seed: int = 0


@dataclass(frozen=True)
class Recipe:
    """One kind of fault: how it is made from the step, and the jobs it can be planted in."""

    make: Callable[[int, Scenario, random.Random], Fault]  # from what the delay is to be, ns a step
    job: Mapping[str, Any] | None = None  # None: any
    sized: bool = True  # whether its amount is a delay
    weight: int = 1
    least_ranks: int = FEWEST_RANKS
    named: Callable[[Fault, Scenario], tuple[int, ...]] = field(default=lambda fault, job: fault.ranks)


def _rank(job: Scenario, draw: random.Random) -> int:
    return draw.randrange(job.ranks)


def _host(job: Scenario, draw: random.Random) -> tuple[int, ...]:
    first = job.ranks_per_host * draw.randrange(job.ranks // job.ranks_per_host)
    return tuple(range(first, first + job.ranks_per_host))


def _experts(job: Scenario, draw: random.Random) -> tuple[int, ...]:
    """The same expert of each group."""
    return tuple(range(draw.randrange(job.expert), job.ranks, job.expert))


def _sisters(fault: Fault, job: Scenario) -> tuple[int, ...]:
    """hsdp: the group between hosts that the slow card is in."""
    return tuple(range(fault.ranks[0] % job.shard, job.ranks, job.shard))


DDP: Mapping[str, Any] = {}
STAGES: Mapping[str, Any] = {"pipeline": 4, "micro_batches": 8}
RECIPES: Mapping[str, Recipe] = {
    "slow compute": Recipe(lambda ns, job, draw: faults.slow_compute(_rank(job, draw), ns), weight=4),
    "slow shard": Recipe(lambda ns, job, draw: faults.slow_shard(_rank(job, draw), ns), weight=4),
    "host pause": Recipe(lambda ns, job, draw: faults.host_pause(_rank(job, draw), ns), weight=4),
    "slow host": Recipe(
        lambda ns, job, draw: faults.slow_host(_host(job, draw), ns), {"ranks_per_host": 4}, least_ranks=16, weight=2
    ),
    "slow loader": Recipe(lambda ns, job, draw: faults.slow_loader(ns)),
    "sync points": Recipe(lambda ns, job, draw: faults.sync_points(ns)),
    "checkpoint": Recipe(lambda ns, job, draw: faults.checkpoint(3 * ns, every=3)),
    "pageable copy": Recipe(lambda ns, job, draw: faults.pageable_copy(ns)),
    "device malloc": Recipe(lambda ns, job, draw: faults.device_malloc(ns)),
    "slow python": Recipe(lambda ns, job, draw: faults.slow_python(ns), DDP),
    "slow network": Recipe(
        lambda ns, job, draw: faults.slow_network(_rank(job, draw), ns),
        {"sharding": "hsdp", "ranks_per_host": 4}, least_ranks=16, named=_sisters,
    ),
    "late communication": Recipe(lambda ns, job, draw: faults.late_communication(ns), DDP),
    "late host": Recipe(lambda ns, job, draw: faults.late_host(ns), DDP),
    "small messages": Recipe(lambda ns, job, draw: faults.small_messages(ns), DDP),
    "gloo": Recipe(lambda ns, job, draw: faults.cpu_backend(ns), DDP),
    "no communication": Recipe(lambda ns, job, draw: faults.no_communication(), DDP, sized=False),
    "heavy stage": Recipe(
        lambda ns, job, draw: faults.heavy_stage(tuple(range(job.ranks - job.ranks // job.pipeline, job.ranks)), ns),
        STAGES,
    ),
    "uneven experts": Recipe(
        lambda ns, job, draw: faults.uneven_experts(_experts(job, draw), ns), {"expert": 4, "layer_bytes": 8_388_608}
    ),
    "late compile": Recipe(lambda ns, job, draw: faults.late_compile(11 * ns)),
    "indexing loop": Recipe(lambda ns, job, draw: faults.indexing_loop(ns)),
    "tiny kernels": Recipe(lambda ns, job, draw: faults.tiny_kernels(ns)),
    "zero grad": Recipe(lambda ns, job, draw: faults.zero_grad(ns)),
    "single tensor": Recipe(lambda ns, job, draw: faults.single_tensor_optimizer(ns)),
    "fp32": Recipe(lambda ns, job, draw: faults.full_fp32(ns)),
    "fp32 on V100": Recipe(lambda ns, job, draw: faults.no_tensor_cores(ns)),
    "unaligned": Recipe(lambda ns, job, draw: faults.unaligned_matmul(ns)),
    "profiler": Recipe(lambda ns, job, draw: faults.profiler(ns)),
    "warm-up": Recipe(lambda ns, job, draw: faults.warm_up(10 * ns, until=draw.choice((3, 4))), sized=False),
    "full memory": Recipe(
        lambda ns, job, draw: faults.full_memory(draw.randrange(80 * GB, 84 * GB)), sized=False
    ),
    "uneven memory": Recipe(
        lambda ns, job, draw: faults.uneven_memory(_rank(job, draw), draw.randrange(16 * GB, 30 * GB)), sized=False
    ),
}  # fmt: skip


def job(seed: int, draw: random.Random, fixed: Mapping[str, Any] | None = None, least: int = FEWEST_RANKS) -> Scenario:
    """A healthy job; big ones have fewer layers, and as many steps as it takes to tell one of so many ranks."""
    weights = [weight for weight, _ in WAYS]
    way = fixed if fixed is not None else draw.choices([way for _, way in WAYS], weights)[0]
    octaves = log2(MOST_RANKS / FEWEST_RANKS)
    ranks = max(least, 8 * round(2 ** (octaves * draw.random() ** RARE)))
    if ranks % 16 and way.get("pipeline", 1) * way.get("tensor", 1) > 8:
        ranks += 8
    layers = draw.randint(2, 4) if ranks <= 32 else 2
    options: dict[str, Any] = {"ranks_per_host": 4 if way.get("sharding") == "hsdp" and ranks < 32 else 8} | dict(way)
    hosts = ranks // options["ranks_per_host"]
    return Scenario(
        ranks=ranks,
        steps=12 if ranks <= 32 else 17,
        layers=layers,
        loader_ns=100_000 * layers,
        seed=seed,
        clock_offsets_ns=tuple(draw.randrange(-(10**10), 10**10) for _ in range(hosts)),
        clock_drifts_ppb=tuple(draw.randrange(-20_000, 20_000) for _ in range(hosts)),
        **options,
    )


def healthy(seed: int) -> Run:
    """A simulated job without a fault."""
    return Run("healthy", job(seed, random.Random(f"healthy {seed}")), seed=seed)


def faulty(seed: int) -> Run:
    """A simulated job with a fault; the kinds take turns, so that few runs have all."""
    turns = [name for name, recipe in RECIPES.items() for _ in range(recipe.weight)]
    name = turns[seed % len(turns)]
    recipe, draw = RECIPES[name], random.Random(f"faulty {seed}")
    scenario = job(seed, draw, recipe.job, recipe.least_ranks)
    share = draw.uniform(LEAST, MOST)
    step = compute_ns(scenario) * (1 + (scenario.pipeline - 1) / scenario.micro_batches)
    fault = recipe.make(round(share / (1 - share) * step), scenario, draw)
    planted = replace(scenario, faults=(fault,))
    named = recipe.named(fault, scenario)
    return Run(name, planted, share=share if recipe.sized else 0.0, rule=fault.rule, ranks=named, seed=seed)


@dataclass(frozen=True)
class Recorded:
    """A recorded run of several ranks: files of the corpus, and whom its own straggler leaves free to be named."""

    pattern: str
    own_straggler: bool = False  # it names a rank as it is, so that a smaller delay of another stays second
    loader: bool = False  # its DataLoader was recorded
    one_clock: bool = False  # its files say that they come from one host, so that clocks cannot be apart


RECORDED: Mapping[str, Recorded] = {
    "dlrm, 8 ranks": Recorded("kineto-dlrm-8rank/*.json.gz", loader=True),
    "torchrec, 4 ranks, late rank": Recorded("kineto-torchrec-4rank/late-rank/*.json.gz", own_straggler=True),
    "torchrec, 4 ranks": Recorded("kineto-torchrec-4rank/two-runs-in-one-folder/*_541*.json.gz"),
    "torchrec, 4 ranks, again": Recorded("kineto-torchrec-4rank/two-runs-in-one-folder/*_559*.json.gz"),
    "resnet, 2 ranks": Recorded("kineto-torchrec-4rank/resnet18-2rank/*.json.gz"),
    "gloo ddp, 4 ranks": Recorded("gloo-4rank/ddp/*.json.gz", loader=True, one_clock=True),
    "gloo fsdp, 4 ranks, slow rank": Recorded("gloo-4rank/fsdp_slow_rank/*.json.gz", True, True, True),
    "gloo fsdp, 4 ranks, slow loader": Recorded("gloo-4rank/fsdp_slow_loader/*.json.gz", loader=True, one_clock=True),
}


def recorded_paths(name: str) -> list[Path]:
    """The files of a recorded run; none where the corpus is absent."""
    return sorted(CORPUS.glob(RECORDED[name].pattern))


def spliced(seed: int) -> Run:
    """A recorded run with a delay."""
    draw = random.Random(f"spliced {seed}")
    name = draw.choice([name for name, recorded in RECORDED.items() if not recorded.own_straggler])
    kinds = [PlantKind.SLOW_COMPUTE, PlantKind.HOST_PAUSE, *([PlantKind.SLOW_LOADER] if RECORDED[name].loader else [])]
    rank = draw.randrange(len(recorded_paths(name)) or 1)
    share = draw.uniform(LEAST, MOST)
    kind = draw.choice(kinds)
    return Run(f"spliced {kind}", None, name, kind, rank, share, "straggler-rank", (rank,), seed)


def spliced_healthy(seed: int) -> Run:
    """A recorded run as it is, or with one rank's clock apart where it could be."""
    draw = random.Random(f"spliced healthy {seed}")
    name = draw.choice(list(RECORDED))
    kind = None if RECORDED[name].one_clock or draw.random() < 0.2 else PlantKind.CLOCK
    return Run("spliced healthy", None, name, kind, draw.randrange(len(recorded_paths(name)) or 1), seed=seed)
