"""Say who holds up a job that hangs, from the flight-recorder dumps of its ranks.

DIR holds the dumps, one a rank, as PyTorch writes them (pickle or JSON, the rank at the end of the name), or is a run
directory of rankscope, which dumps by itself when steps stop coming. Dumps that are missing or empty are evidence, not an
error.

examples:
  rankscope hang runs/a                   a run that rankscope recorded
  rankscope hang /tmp/nccl_dumps          TORCH_NCCL_DUMP_ON_TIMEOUT=1, TORCH_NCCL_DEBUG_INFO_TEMP_FILE=/tmp/nccl_dumps/rank
  rankscope hang dumps --format json | jq .culprits

exit status: 0 nothing hangs, 1 a hang or a mismatch was found, 2 bad usage or nothing readable
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

from rankscope.ui import output

if TYPE_CHECKING:
    from rankscope.analyzers.hang.verdict import Verdict

SHOWN: Final = 24  # lines of evidence in the terminal
STACK_LINES: Final = 40


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("directory", metavar="DIR", help="folder of dumps, or a run directory")
    parser.add_argument("--format", choices=("terminal", "json"), default="terminal", help="default: terminal")
    parser.add_argument("-o", "--output", metavar="FILE", help="write there instead of to standard output")


def run(args: argparse.Namespace) -> int:
    """Read the dumps and give the verdict."""
    from rankscope.analyzers.hang.gathering import gather
    from rankscope.analyzers.hang.judging import judge

    found = gather(args.directory)
    verdict = judge(found.dumps, found.world_size)
    stacks = {rank: path for rank, path in found.stacks.items() if rank in verdict.culprits}
    if args.format == "json":
        content = {"schema_version": 1} | asdict(verdict) | {"stacks": stacks, "warnings": found.warnings}
        text = json.dumps(content, indent=1) + "\n"
    else:
        text = _text(verdict, len(found.dumps)) + "".join(_stack(rank, path) for rank, path in sorted(stacks.items()))
    output.put(text, args.output)
    for warning in found.warnings:
        output.say(f"warning: {warning}")
    return int(verdict.verdict not in ("none", "unknown"))


def _text(verdict: Verdict, dumps: int) -> str:
    lines = [verdict.sentence, f"  dumps      {dumps}"]
    if verdict.culprits:
        lines.append(f"  culprits   {', '.join(map(str, verdict.culprits))}  (most suspect first)")
    if verdict.group is not None:
        lines.append(f"  group      {verdict.group}: ranks {', '.join(map(str, verdict.group_ranks))}")
        lines.append(f"  last done  {verdict.last_common or 'nothing that all of them have'}")
    if verdict.evidence:
        lines += ["", "Evidence:", *(f"  - {line}" for line in verdict.evidence[:SHOWN])]
        if len(verdict.evidence) > SHOWN:
            lines.append(f"  and {len(verdict.evidence) - SHOWN:,} more lines in --format json")
    return "\n".join(map(_visible, lines)) + "\n"


def _stack(rank: int, path: str) -> str:
    """The end of a rank's stacks, where its threads stood."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            lines = file.read(1 << 20).splitlines()[:STACK_LINES]
    except OSError as error:
        return f"\nStacks of rank {rank}: {path} cannot be read ({error.strerror})\n"
    return "\n".join([f"\nStacks of rank {rank} ({path}):", *(f"  {_visible(line)}" for line in lines)]) + "\n"


def _visible(text: str) -> str:
    from rankscope.reports.names import visible

    return visible(text)
