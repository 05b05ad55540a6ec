"""Ask a running job for a window of the PyTorch Profiler, at the same steps on all ranks.

The ranks look for requests about once a second, as long as they are recorded by rankscope into this run directory; only
requests of the user who runs the job count. What they write is in the folders of the ranks.

examples:
  rankscope window runs/a                     three steps, a few seconds from now
  rankscope window runs/a --steps 5 --stacks  five steps with Python stacks, which make steps slower
  rankscope window runs/a --dump              no window: all Python stacks and the flight recorder, now
  rankscope window runs/a --snapshot          no window: a snapshot of each device's memory, now
"""

from __future__ import annotations

import argparse
from typing import Final

from rankscope.analyzers.errors import NothingToRead
from rankscope.collector.request import DUMP, MEMORY, WINDOW, request_path
from rankscope.collector.run_dir import rank_folders, write_atomically
from rankscope.ui import output

MOST_STEPS: Final = 1000  # a window of more is a trace that nobody opens


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("run", metavar="RUN", help="the run directory of the job")
    parser.add_argument("--steps", type=_steps, metavar="N", default=3, help="length of the window (default: %(default)s)")
    parser.add_argument("--stacks", action="store_true", help="with Python stacks")
    parser.add_argument("--memory", action="store_true", help="with allocations of tensors")
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument("--dump", action="store_true", help="stacks and flight recorder instead of a window")
    instead.add_argument("--snapshot", action="store_true", help="a snapshot of device memory instead of a window")


def run(args: argparse.Namespace) -> int:
    """Leave the request where the ranks look for it."""
    ranks = len({folder.rank for folder in rank_folders(args.run)})
    if not ranks:
        raise NothingToRead(f"{args.run} is not the run directory of a job")
    kind = DUMP if args.dump else MEMORY if args.snapshot else WINDOW
    words = [f"steps={args.steps}", *(word for word in ("stacks", "memory") if getattr(args, word))]
    write_atomically(request_path(args.run, kind), " ".join(words if kind == WINDOW else []) + "\n")
    asked = "snapshot" if kind == MEMORY else kind
    output.say(f"asked {ranks} {'rank' if ranks == 1 else 'ranks'} of {args.run} for a {asked}")
    return 0


def _steps(text: str) -> int:
    if text.isascii() and text.isdigit() and len(text) < 7 and 0 < int(text) <= MOST_STEPS:
        return int(text)
    raise argparse.ArgumentTypeError(f"is a number from 1 to {MOST_STEPS}")
