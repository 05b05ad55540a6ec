"""Record a training command as it is, without a line of code: what it trains is what it leaves a run directory of.

Every Python process that the command starts and that trains (an optimizer steps) records itself; a step ends with the
first optimizer's step, unless the script calls `p.step()`. The command's exit status, output and signals are its own.

examples:
  rankscope run -- torchrun --nproc-per-node 8 train.py
  rankscope run -o runs/a -- python train.py --epochs 3
  rankscope run --mode window -- srun python -m my.training
  rankscope report runs/a
"""

from __future__ import annotations

import argparse
import os
import time

from rankscope.collector import launch
from rankscope.collector.options import BUDGET_SHARE, MODES
from rankscope.ui import output


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.usage = "rankscope run [options] -- COMMAND [ARGUMENT ...]"
    parser.add_argument(
        "-o", "--output", metavar="DIR", help="the run directory (default: rankscope-runs/ and the time of the start)"
    )
    parser.add_argument(
        "--mode", choices=MODES, default="pulse", help="pulse: stages of each step; window, full: profiler windows too"
    )
    parser.add_argument(
        "--budget-share", metavar="SHARE", type=_share, default=BUDGET_SHARE,
        help=f"of the step's time, that recording may cost before it thins itself out (default: {BUDGET_SHARE})",
    )  # fmt: skip
    parser.add_argument("command_line", metavar="COMMAND", nargs=argparse.REMAINDER, help="after a `--`")


def run(args: argparse.Namespace) -> int:
    """Become the command, with what makes its Python processes record themselves in the environment."""
    words = args.command_line[1:] if args.command_line[:1] == ["--"] else args.command_line
    if not words or not words[0]:
        output.say("there is no command; `rankscope run -- python train.py`")
        return 2
    words = launch.command(words)
    run_dir = args.output or os.path.join("rankscope-runs", time.strftime("%Y-%m-%d-%H%M%S"))
    chosen = {"mode": args.mode, "budget_share": args.budget_share}
    os.environ.update(launch.child_environment(run_dir, chosen))
    try:
        os.execvp(words[0], words)
    except OSError as error:
        output.say(f"{words[0]}: {error.strerror or error}")
    return 2


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = 0.0
    if not 0 < share <= 1:
        raise argparse.ArgumentTypeError("is a share above 0 and up to 1")
    return share
