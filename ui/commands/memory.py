"""Say what held the devices' memory: peaks, waste, growth from step to step, and who asked for it.

PATH is what `rankscope report` takes (recorded with profile_memory=True), a snapshot of the CUDA allocator
(torch.cuda.memory._dump_snapshot), or a folder of either.

examples:
  rankscope memory traces/                         a line a device
  rankscope memory runs/a/memory-oom-120.pickle    what a rank held when it ran out
  rankscope memory traces/ --format json | jq '.devices[].fragmentation'

exit status: 0 done, 2 bad usage or nothing about memory
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

from rankscope.ui import output
from rankscope.ui.commands.report import loaded, selection

if TYPE_CHECKING:
    from rankscope.analyzers.memory.held import DeviceMemory
    from rankscope.analyzers.memory.snapshot import SnapshotMemory

SHOWN: Final = 5  # owners of a snapshot's memory in the terminal


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    selection(parser)
    add = parser.add_argument
    add("--format", choices=("terminal", "json"), default="terminal", help="default: terminal")
    add("-o", "--output", metavar="FILE", help="write there instead of to standard output")


def run(args: argparse.Namespace) -> int:
    """Read the memory events and the snapshots."""
    from rankscope.analyzers.errors import NothingToRead
    from rankscope.analyzers.memory.gathering import gather
    from rankscope.analyzers.memory.held import RECORD

    found = gather(args.paths)
    devices: list[DeviceMemory] = []
    warnings = found.warnings
    args.paths = found.other_paths
    if args.paths:
        try:
            devices, more = _recorded(args)
            warnings += more
        except NothingToRead:
            if not found.devices:
                raise
    if not devices and not found.devices:
        said = f"; {warnings[0]}" if warnings else ""
        raise NothingToRead(f"nothing about memory was recorded: {RECORD}{said}")
    if args.format == "json":
        content = {"schema_version": 1, "devices": [asdict(one) for one in devices]}
        content |= {"snapshots": [asdict(one) for one in found.devices], "warnings": warnings}
        output.put(json.dumps(content, indent=1) + "\n", args.output)
    else:
        lines = [line for one in devices for line in _device(one)] + [
            line for s in found.devices for line in _snapshot(s)
        ]
        output.put("\n".join(_fitting(line) for line in lines) + "\n", args.output)
    for warning in warnings:
        output.say(f"warning: {warning}")
    return 0


def _recorded(args: argparse.Namespace) -> tuple[list[DeviceMemory], list[str]]:
    """The devices of all ranks, a trace in memory at a time, and what could not be read."""
    from rankscope.analyzers.errors import UnreadableTrace
    from rankscope.analyzers.memory.held import held

    whole = loaded(args)
    devices: list[DeviceMemory] = []
    warnings = list(whole.analysis.run.warnings)
    for rank in whole.analysis.ranks:
        try:
            devices += held(whole.read(rank), rank)
        except UnreadableTrace as error:
            warnings.append(str(error))
    return devices, warnings


def _device(one: DeviceMemory) -> list[str]:
    from rankscope.analyzers.quantities import count, share, size

    least = "at least " if one.basis == "lower_bound" else ""
    of = f" of {size(one.limit_bytes)}" if one.limit_bytes is not None else ""
    step = f"step {one.peak_step}" if isinstance(one.peak_step, int) else f"{one.peak_step or 'outside of'} the steps"
    where = " in ".join(part for part in (one.peak_operator, one.peak_module) if part)
    lines = [
        f"rank {one.rank} {one.device}",
        f"  peak           {least}{size(one.peak_bytes)}{of}, {step}, {where or 'n/a'}",
    ]
    waste = one.fragmentation
    if waste is not None:
        lines.append(
            f"  fragmentation  {share(waste.share)}: {size(waste.reserved_bytes)} reserved, "
            f"{size(waste.allocated_bytes)} allocated"
        )
    else:
        lines.append(f"  fragmentation  n/a: {one.reasons['fragmentation']}")
    grows = one.creep
    if grows.bytes_per_step is None:
        lines.append(f"  creep          n/a: {grows.reason}")
    elif grows.verdict == "steady":
        lines.append(f"  creep          none in {count(grows.steps)} steps")
    else:
        left = f"; full in {count(round(grows.steps_to_oom))} steps" if grows.steps_to_oom is not None else ""
        lines.append(f"  creep          {size(grows.bytes_per_step)} a step over {count(grows.steps)} steps{left}")
    return lines


def _snapshot(one: SnapshotMemory) -> list[str]:
    from rankscope.analyzers.quantities import count, plural, share, size

    peak = "n/a: no history" if one.peak_bytes is None else size(one.peak_bytes)
    lines = [
        f"{one.path} device {one.device}",
        f"  now            {size(one.allocated_bytes)} allocated, {size(one.reserved_bytes)} reserved in "
        f"{plural(one.segments, 'segment')}",
        f"  fragmentation  {share(one.fragmentation_share)}; the largest hole is {size(one.largest_free_bytes)}",
        f"  peak           {peak}",
    ]
    if one.ooms is not None:
        lines.append(f"  out of memory  {count(one.ooms)} times; retries {count(one.retries)}")
    held = one.peak_by_frame if one.peak_by_frame is not None else one.by_frame
    lines.append("  held at the peak by" if one.peak_by_frame is not None else "  held now by")
    return lines + [f"    {size(part.bytes):<10} {part.name}" for part in held[:SHOWN]]


def _fitting(line: str) -> str:
    from rankscope.reports.names import shortened, visible

    return shortened(visible(line), output.width())
