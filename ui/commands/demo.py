"""Make a run with a planted fault, report it, and write the report's page: simulated, or trained here.

examples:
  rankscope demo                      simulates eight ranks; rankscope-demo/ gets their traces and report.html
  rankscope demo -o DIR               writes them there
  rankscope demo --fault slow-loader  the same job with another fault
  rankscope demo --train              trains a small model on 4 CPU ranks of this machine, one of them slow (needs torch)
  rankscope demo --train --fault gc:rank=1,ms=80
"""

from __future__ import annotations

import argparse
import inspect
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rankscope.analyzers.errors import BadSelection, MissingExtra, RankscopeError
from rankscope.ui import output
from rankscope.ui.commands.report import rendered

if TYPE_CHECKING:
    from rankscope.analyzers.findings import Diagnosis

RANKS: Final = 4
TRAINED_FAULT: Final = "slow-forward:rank=2,ms=150"
# large enough that a step takes a quarter of a second on two cores, small enough to be over in half a minute
JOB: Final = ("--steps", "40", "--batch", "16", "--length", "64", "--workers", "0", "--log-every", "10")


class _WithFaults(argparse.RawDescriptionHelpFormatter):
    """Lists the faults below the help; only then is the simulator loaded."""

    def format_help(self) -> str:
        """The help, and each fault with the first line of its docstring."""
        from rankscope.simulator import demo

        told = {name: (inspect.getdoc(make) or "").partition("\n")[0] for name, make in demo.plantable().items()}
        width = max(map(len, told))
        return (
            super().format_help()
            + "\nfaults to simulate:\n"
            + "".join(f"  {name:{width}}  {doc}\n" for name, doc in told.items())
            + "\nfaults to train with: python -m rankscope.kernels.trainer --help\n"
        )


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.formatter_class = _WithFaults
    parser.add_argument(
        "-o", "--output", metavar="DIR", default="rankscope-demo", help="where to write (default: rankscope-demo)"
    )
    parser.add_argument("--train", action="store_true", help=f"train on {RANKS} ranks here instead of simulating")
    parser.add_argument(
        "--fault", metavar="NAME", help=f"what to plant (default: slow-compute; with --train {TRAINED_FAULT})"
    )


def run(args: argparse.Namespace) -> int:
    """Simulate or train, report and write."""
    folder = Path(args.output)
    made = _trained(folder / "run", args.fault) if args.train else _simulated(folder / "traces", args.fault)
    diagnosis = _diagnosed(made)
    page = folder / "report.html"
    output.put(rendered(diagnosis, "html"), str(page))
    output.put(rendered(diagnosis, "terminal"), None)
    output.say(f"the same as a page: {page}")
    output.say(f"what it was made from: {made}; read it yourself with `rankscope report {made}`")
    return 0


def _diagnosed(place: Path) -> Diagnosis:
    from rankscope import diagnose

    return diagnose(place, cache=False)


def _simulated(place: Path, fault: str | None) -> Path:
    from rankscope.simulator import demo

    if fault is not None and fault not in demo.plantable():
        raise BadSelection(f"no fault {fault}; there are {', '.join(demo.plantable())}")
    demo.write(place, fault)
    return place


def _trained(place: Path, fault: str | None) -> Path:
    """Run the reference trainer under rankscope; its log goes to standard error."""
    if find_spec("torch") is None:
        raise MissingExtra("training", "torch", "train")
    from rankscope.kernels.trainer.faults import Fault

    try:
        planted = Fault.parse(fault or TRAINED_FAULT)
    except ValueError as error:
        raise BadSelection(str(error)) from error
    if planted.rank not in {None, *range(RANKS)}:
        raise BadSelection(f"no rank {planted.rank}; the demo trains on ranks 0-{RANKS - 1}")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(RANKS)]
    command += ["-m", "rankscope.kernels.trainer", *JOB, "--profile", str(place)]
    command += ["--profile-mode", "window", "--fault", fault or TRAINED_FAULT]
    output.say(f"training on {RANKS} CPU ranks, with the fault {fault or TRAINED_FAULT}; this takes about a minute")
    environment = {"OMP_NUM_THREADS": "1"} | os.environ | {"RANKSCOPE_QUIET": "1"}
    done = subprocess.run(command, env=environment, stdout=sys.stderr, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        last = [line for line in done.stderr.splitlines() if line.strip() and "USDT" not in line]
        raise RankscopeError("the trainer failed: " + "\n".join(last[-15:]))
    return place
