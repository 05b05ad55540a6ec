"""Is each fault of the reference trainer named first by `rankscope report`? Real gloo runs, 4 ranks, one fault each.

    python benchmarks/trainer_faults.py          all of them, about ten minutes on 2 cores
    python benchmarks/trainer_faults.py gc       those whose name contains this

Faults whose rules ask what a device starves for, or need the sizes that NCCL writes into traces, are not run here, and are
listed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import measure

JOB = ["--workers", "0", "--log-every", "1000", "--batch", "16", "--length", "64"]
ON_A_DEVICE = ("sync-points", "no-prefetch", "recompilation", "tiny-buckets")


@dataclass(frozen=True, slots=True)
class Case:
    """A fault, and what has to be found first: the rule, its ranks, and its cause where the pulse can tell it."""

    fault: str
    rule: str
    ranks: tuple[int, ...] = ()
    cause: str | None = None
    more: tuple[str, ...] = ()
    mode: str = "pulse"
    ends: bool = True  # False: the job hangs and is ended from outside


CASES = (
    Case("slow-forward:rank=2,ms=120", "straggler-rank", (2,), "compute"),
    Case("slow-backward:rank=1,ms=120", "straggler-rank", (1,), "compute"),
    Case("slow-optimizer:rank=3,ms=120", "straggler-rank", (3,), "compute"),
    Case("slow-data:rank=2,ms=120", "straggler-rank", (2,), "data"),
    Case("slow-collate:rank=0,ms=120", "straggler-rank", (0,), "data"),
    Case("slow-host:rank=1,ms=120", "straggler-rank", (1,), "host"),
    Case("gc:rank=3,ms=120", "straggler-rank", (3,), "host"),
    Case("uneven-lengths:rank=2,times=4", "straggler-rank", (2,), "compute"),
    Case("slow-data:ms=120", "data-starved"),
    Case("slow-collate:ms=120", "data-starved"),
    Case(
        "checkpoint-stall:ms=1500",
        "checkpoint-stall",
        more=("--checkpoint", "{folder}/ckpt", "--checkpoint-every", "5"),
    ),
    Case("slow-forward:ms=150,start=20", "slowed-down", more=("--steps", "45")),
    Case("hang:rank=2,start=10", "hang", (2,), ends=False),
    Case("order-mismatch:rank=1,start=10", "hang", (1,), ends=False),
)


def train(case: Case, folder: Path) -> None:
    """Run the trainer with the fault; Failed where it should have ended well and did not."""
    environment = {**os.environ, "PYTHONPATH": str(measure.ROOT), "OMP_NUM_THREADS": "1", "RANKSCOPE_QUIET": "1"}
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "4"]
    command += ["-m", "rankscope.kernels.trainer", *JOB, "--steps", "24", "--profile", str(folder / "run")]
    command += ["--profile-mode", case.mode, "--fault", case.fault]
    command += [argument.replace("{folder}", str(folder)) for argument in case.more]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        _, said = process.communicate(timeout=600 if case.ends else 120)
    except subprocess.TimeoutExpired:
        process.terminate()
        _, said = process.communicate(timeout=60)
    if case.ends and process.returncode:
        raise measure.Failed(said[-2000:])


def verdict(case: Case, folder: Path) -> tuple[bool, str]:
    """Whether the report's first finding is the expected one, and what it says."""
    import rankscope

    findings = rankscope.diagnose(folder / "run", cache=False, jobs=1).findings
    expected = [f for f in findings if f.rule == case.rule]
    first = expected and expected[0] == next(f for f in findings if f.kind == expected[0].kind)
    right = bool(first) and expected[0].ranks == list(case.ranks) and case.cause in (None, expected[0].cause)
    said = expected[0].message if right else "; ".join(f"{f.rule} {f.ranks} {f.cause}" for f in findings) or "nothing"
    return right, said


def main() -> int:
    """Run, print and keep; exit status 1 where one is not named first."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("only", nargs="?", default="", help="cases whose fault contains this")
    given = parser.parse_args()
    report = measure.Report("trainer_faults", {"torch": measure.version_of("torch")})
    chosen = [case for case in CASES if given.only in case.fault]
    named = 0
    report.content["cases"] = []
    for case in chosen:
        with tempfile.TemporaryDirectory() as made:
            train(case, Path(made))
            right, said = verdict(case, Path(made))
        named += right
        print(f"{'named ' if right else 'MISSED'} {case.fault:34} {case.rule:18} {said}", flush=True)
        report.content["cases"].append({"fault": case.fault, "rule": case.rule, "named_first": right, "said": said})
    print(f"not run, they need a device: {', '.join(ON_A_DEVICE)}")
    report.target("faults named first", named, len(chosen), unit=f"of {len(chosen)}")
    report.write(quick=bool(given.only))
    return int(named < len(chosen))


if __name__ == "__main__":
    sys.exit(main())
