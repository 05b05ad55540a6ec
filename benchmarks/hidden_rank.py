"""Does the pulse alone name the rank and the stage that hold a group up? Real gloo runs of the reference trainer.

72 runs on 4 ranks: faults in data, forward, backward and optimizer x DDP and FSDP2 x a delay of 10, 20 and 50 % of the step
x 3 seeds; the rank is drawn. 60 healthy runs on 2 ranks must name nobody. Nothing but `pulse.jsonl` is recorded.

    python benchmarks/hidden_rank.py            all of it, about 15 minutes on 2 cores
    python benchmarks/hidden_rank.py --quick    one seed, 4 healthy runs
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import measure
from intervals import interval, share_with_interval

STAGES = {"data": "slow-data", "forward": "slow-forward", "backward": "slow-backward", "optimizer": "slow-optimizer"}
DELAYS = (0.1, 0.2, 0.5)
JOB = ["--workers", "0", "--log-every", "1000", "--batch", "16", "--length", "64", "--layers", "4", "--steps"]
STEPS, BASELINE_STEPS = 24, 12


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the trainer; `stage` None: healthy. `share` of the healthy step is what the fault adds."""

    name: str
    parallel: str
    seed: int
    rank: int | None = None
    stage: str | None = None
    share: float = 0.0


def runs(seeds: int, healthy: int) -> tuple[list[Run], list[Run]]:
    """The faulty runs for 4 ranks and the healthy ones for 2."""
    draw = random.Random(20_26)
    faulty = [
        Run(f"{parallel}-{stage}-{round(share * 100)}-{seed}", parallel, seed, draw.randrange(4), stage, share)
        for parallel in ("ddp", "fsdp")
        for stage in STAGES
        for share in DELAYS
        for seed in range(seeds)
    ]
    well = [Run(f"healthy-{i}", ("ddp", "fsdp")[i % 2], i) for i in range(healthy)]
    return faulty, well


# ---- in the ranks


def work(plan: list[Run], folder: Path) -> None:
    """Train every run of the plan, one after the other, in these processes."""
    import torch.distributed as dist

    from rankscope.kernels.trainer import train
    from rankscope.kernels.trainer.options import parse

    device = train.begin()
    healthy_ms: dict[str, float] = {}
    for run in plan:
        if run.stage and run.parallel not in healthy_ms:
            healthy_ms[run.parallel] = _baseline_ms(run.parallel)
        arguments = [*JOB, str(STEPS), "--parallel", run.parallel, "--seed", str(run.seed)]
        if run.stage:
            ms = run.share * healthy_ms[run.parallel]
            arguments += ["--fault", f"{STAGES[run.stage]}:rank={run.rank},ms={ms:.1f}"]
        train.Training(parse([*arguments, "--profile", str(folder / run.name)]), device).run()
        dist.barrier()
    dist.destroy_process_group()


def _baseline_ms(parallel: str) -> float:
    """What a step of a healthy job takes, the same number on every rank."""
    import torch
    import torch.distributed as dist

    from rankscope.kernels.trainer import train
    from rankscope.kernels.trainer.options import parse

    job = train.Training(parse([*JOB, str(BASELINE_STEPS), "--parallel", parallel]), torch.device("cpu"))
    times = []
    for batch in job.loader(range(BASELINE_STEPS)):
        begin = time.perf_counter()
        job.step(batch)
        times.append((time.perf_counter() - begin) * 1e3)
    middle = torch.tensor(statistics.median(times[2:]))
    dist.broadcast(middle, 0)
    return float(middle)


# ---- outside


def launch(plan: list[Run], ranks: int, folder: Path) -> None:
    """Run the plan under torchrun; Failed with its last words where it does not end well."""
    environment = {**os.environ, "PYTHONPATH": str(measure.ROOT), "OMP_NUM_THREADS": "1", "RANKSCOPE_QUIET": "1"}
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
    command += [__file__, "--worker", json.dumps([asdict(run) for run in plan]), str(folder)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise measure.Failed(done.stderr[-3000:])


def named(folder: Path) -> tuple[list[int], str]:
    """The ranks that the report on this run directory names, and where it says the delay lies."""
    import rankscope

    for finding in rankscope.diagnose(folder, cache=False, jobs=1).findings:
        if finding.ranks:
            stages = [str(e.value) for e in finding.evidence if e.label == "stage"]
            return finding.ranks, stages[0] if stages else finding.where
    return [], ""


def main() -> int:
    """Run, judge, print and keep; exit status 1 where a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one seed and 4 healthy runs; nothing is kept")
    parser.add_argument("--worker", nargs=2, metavar=("PLAN", "FOLDER"), help=argparse.SUPPRESS)
    parser.add_argument("--keep", metavar="FOLDER", help="keep the run directories there")
    given = parser.parse_args()
    if given.worker:
        work([Run(**run) for run in json.loads(given.worker[0])], Path(given.worker[1]))
        return 0
    faulty, well = runs(1, 4) if given.quick else runs(3, 60)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(given.keep or made)
        launch(faulty, 4, folder)
        launch(well, 2, folder)
        found = {run.name: named(folder / run.name) for run in [*faulty, *well]}
    report = measure.Report("hidden_rank", {"torch": measure.version_of("torch")})
    rank_right = [found[run.name][0] == [run.rank] for run in faulty]
    both_right = [right and run.stage == found[run.name][1] for right, run in zip(rank_right, faulty, strict=True)]
    for run, right in zip(faulty, both_right, strict=True):
        if not right:
            print(f"  {run.name}: rank {run.rank} in {run.stage}; named {found[run.name]}")
    for run in well:
        if found[run.name][0]:
            print(f"  {run.name}: named {found[run.name]}")
    quiet = sum(not found[run.name][0] for run in well)
    print(f"rank named             {share_with_interval(sum(rank_right), len(faulty))}")
    print(f"rank and stage named   {share_with_interval(sum(both_right), len(faulty))}")
    print(f"healthy, nobody named  {share_with_interval(quiet, len(well))}")
    report.target("rank and stage named", sum(both_right), len(faulty) * 69 / 72, unit=f"of {len(faulty)} runs")
    report.target("healthy runs that name nobody", quiet, len(well), unit=f"of {len(well)} runs")
    report.content["runs"] = [asdict(run) | {"named": found[run.name]} for run in [*faulty, *well]]
    report.content["intervals"] = {
        "rank": interval(sum(rank_right), len(faulty)),
        "rank_and_stage": interval(sum(both_right), len(faulty)),
        "healthy": interval(quiet, len(well)),
    }
    report.write(quick=given.quick)
    return int(not all(target["met"] for target in report.content["targets"]))


if __name__ == "__main__":
    sys.exit(main())
