"""Say what NCCL's own logs and topologies tell: ranks, channels, transports, bandwidth, and what is wrong with them.

Each file is told by its content: NCCL_DEBUG logs, NCCL Inspector's JSON lines, topology and graph XML, `nvidia-smi topo -m`,
tables of nccl-tests. Give the logs of all ranks at once: those of one communicator are joined.

examples:
  rankscope nccl slurm-104.out                         what one job printed with NCCL_DEBUG=INFO
  rankscope nccl good.log bad.log                      24 channels there, 2 here: a link
  rankscope nccl logs/ --format json | jq .findings

exit status: 0 no finding, 1 findings, 2 bad usage or nothing readable
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from textwrap import wrap
from typing import TYPE_CHECKING, Final

from rankscope.ui import output

if TYPE_CHECKING:
    from rankscope.analyzers.nccl.debug_log import Communicator
    from rankscope.analyzers.nccl.evidence import Evidence
    from rankscope.analyzers.nccl.judging import Finding

SHOWN: Final = 24  # rows of one kind in the terminal


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("paths", metavar="PATH", nargs="+", help="files, or folders to look through")
    parser.add_argument("--format", choices=("terminal", "json"), default="terminal", help="default: terminal")
    parser.add_argument("-o", "--output", metavar="FILE", help="write there instead of to standard output")


def run(args: argparse.Namespace) -> int:
    """Read, judge and print."""
    from rankscope.analyzers.nccl.evidence import gather
    from rankscope.analyzers.nccl.judging import judge

    found = gather(args.paths)
    findings = judge(found.communicators)
    text = _json(found, findings) if args.format == "json" else _text(found, findings)
    output.put(text, args.output)
    for note in found.notes:
        output.say(f"note: {note}")
    return int(bool(findings))


def _json(found: Evidence, findings: Sequence[Finding]) -> str:
    content = {
        "schema_version": 1,
        "findings": [asdict(finding) for finding in findings],
        "communicators": [asdict(comm) for comm in found.communicators],
        "logs": [
            {
                "path": path,
                "versions": log.versions,
                "messages": log.messages,
                "interleaved_lines": log.interleaved_lines,
                "unplaced_messages": log.unplaced_messages,
                "left_out_messages": log.left_out_messages,
                "warnings": log.warnings,
            }
            for path, log in found.logs
        ],
        "collectives": [asdict(size) for size in found.collectives],
        "layouts": [{"path": path} | asdict(layout) for path, layout in found.layouts],
        "matrices": [
            {"path": path, "devices": matrix.devices, "paths": [[*pair, cell] for pair, cell in matrix.paths.items()]}
            for path, matrix in found.matrices
        ],
        "tables": [{"path": path} | asdict(table) for path, table in found.tables],
        "notes": found.notes,
    }
    return json.dumps(content, indent=1) + "\n"


def _text(found: Evidence, findings: Sequence[Finding]) -> str:
    from rankscope.reports.names import visible

    lines = [*_findings(findings), *_communicators(found.communicators), *_logs(found), *_collectives(found)]
    lines += [*_layouts(found), *_tables(found)]
    return "\n".join(map(visible, lines)) + "\n"


def _findings(findings: Sequence[Finding]) -> Iterator[str]:
    from rankscope.reports.names import visible

    yield f"Findings: {len(findings)}"
    for finding in findings[:SHOWN]:
        yield f"  {finding.id}  {finding.communicator}"
        yield from wrap(visible(finding.sentence), output.width(), initial_indent="    ", subsequent_indent="    ")
        yield from (f"    - {line}" for line in finding.evidence)
    yield from _more(len(findings))


def _communicators(communicators: Sequence[Communicator]) -> Iterator[str]:
    from rankscope.analyzers.nccl.judging import channels, hosts

    for comm in communicators[:SHOWN]:
        versions = sorted({rank.version for rank in comm.ranks if rank.version is not None})
        said = channels(comm)
        yield ""
        yield f"Communicator {comm.id}"
        yield f"  ranks       {len(comm.ranks)} of {comm.size} in the logs; hosts: {hosts(comm)}"
        yield f"  channels    {'n/a (not in the log)' if said is None else said}"
        yield f"  NCCL        {', '.join(versions) or 'n/a (no version beside a process)'}"
        if networks := sorted({rank.network for rank in comm.ranks if rank.network is not None}):
            yield f"  network     {', '.join(networks)}"
        pairs = Counter(link.transport for link in comm.connections)
        yield f"  transports  {'' if pairs else 'n/a (NCCL_DEBUG=INFO prints them when ranks connect)'}".rstrip()
        yield from (f"    {count:>6,} pairs  {name}" for name, count in pairs.most_common(SHOWN))
        if comm.rings:
            yield f"  ring {min(comm.rings)}      {' '.join(map(str, comm.rings[min(comm.rings)][:32]))}"
    yield from _more(len(communicators))


def _logs(found: Evidence) -> Iterator[str]:
    for path, log in found.logs[:SHOWN]:
        yield ""
        yield f"{path}: messages {log.messages:,}, warnings {len(log.warnings)}, version {', '.join(log.versions) or 'n/a'}"
        yield from (f"  WARN {warning}" for warning in log.warnings[:3])
    yield from _more(len(found.logs))


def _collectives(found: Evidence) -> Iterator[str]:
    if found.collectives:
        yield ""
        yield "NCCL Inspector: time of the rank that waited least, median over operations"
        yield f"  {'communicator':<20} {'operation':<14} {'bytes':>14} {'ranks':>9} {'count':>7} {'us':>12} {'busbw GB/s':>11}"
    for size in found.collectives[:SHOWN]:
        ranks = f"{size.ranks}/{size.of_ranks}"
        yield (
            f"  {size.communicator:<20} {size.operation:<14} {size.message_bytes:>14,} {ranks:>9} "
            f"{size.operations:>7,} {size.transfer_us:>12,.1f} {size.busbw_gb_per_s:>11.2f}"
        )
    yield from _more(len(found.collectives))


def _layouts(found: Evidence) -> Iterator[str]:
    from rankscope.analyzers.nccl.topo_matrix import between_gpus

    for path, layout in found.layouts[:SHOWN]:
        yield ""
        if (topology := layout.topology) is not None:
            links = sorted(set(topology.nvlinks))
            yield f"{path}: topology of {topology.gpus} GPUs, {topology.nics} NICs, {topology.cpus} NUMA nodes"
            yield f"  links a GPU {', '.join(map(str, links)) if links else 'n/a (no GPU is described)'}"
        for graph in layout.graphs[:SHOWN]:
            yield f"{path}: graph {graph.id}: {graph.channels} channels, {graph.within_gb_per_s} GB/s each, {graph.within_path}"
    for path, matrix in found.matrices[:SHOWN]:
        pairs = ", ".join(f"{count} pairs {cell}" for cell, count in sorted(between_gpus(matrix).items()))
        yield ""
        yield f"{path}: {len(matrix.devices)} devices; between GPUs {pairs or 'n/a'}"


def _tables(found: Evidence) -> Iterator[str]:
    for path, table in found.tables[:SHOWN]:
        best = max(table.rows, key=lambda row: row.out_of_place_busbw_gb_per_s)
        average = "n/a" if table.average_busbw_gb_per_s is None else f"{table.average_busbw_gb_per_s:.2f} GB/s"
        yield ""
        yield f"{path}: nccl-tests, {len(table.rows)} sizes, {table.cut_rows} cut"
        yield f"  best busbw  {best.out_of_place_busbw_gb_per_s:.2f} GB/s at {best.size_bytes:,} bytes; average {average}"


def _more(count: int) -> Iterator[str]:
    if count > SHOWN:
        yield f"  and {count - SHOWN:,} more in --format json"
