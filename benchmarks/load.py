"""Loading against HTA: CPU, wall and memory of whole processes, with and without imports, in interleaved rounds.

    python benchmarks/load.py [--hta-python .venv-hta/bin/python] [--from TRACE] [--rounds 3] [--quick]

Ours is `read(file)`, the exact columns, or the whole `rankscope report`; HTA's is `TraceAnalysis(...)`, for folders
with its temporal breakdown. Without --hta-python only our own figures are taken. Traces are grown once into
benchmarks/.traces.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from grow import Template, copies_for, grow, source_text
from measure import ROOT, Failed, Report, Sample, median, report_command, run

READ = """
import sys
from rankscope.analyzers.trace.readers import read
for path in sys.argv[1:]:
    trace = read(path)
    print(trace.meta.events)
"""
REPORT_IMPORTS = """
import rankscope.analyzers.diagnose, rankscope.analyzers.loading, rankscope.analyzers.rules
import rankscope.analyzers.trace.readers, rankscope.reports.renderers.json, rankscope.ui.cli
"""
HTA = """
import logging, sys
logging.disable(logging.CRITICAL)
from hta.trace_analysis import TraceAnalysis
if len(sys.argv) > 1:
    files = {rank: path for rank, path in enumerate(sys.argv[2:])}
    analysis = TraceAnalysis(trace_files=files)
    if sys.argv[1] == "breakdown":
        analysis.get_temporal_breakdown(visualize=False)
"""


@dataclass(frozen=True)
class Pairs:
    """Our samples, and the medians over the rounds of HTA's figures divided by ours; none without HTA."""

    ours: list[Sample]
    ratios: dict[str, float]


class Bench:
    """The cases, on traces of one source. `scale` shrinks them all for a quick look."""

    def __init__(self, args: argparse.Namespace, scratch: Path) -> None:
        self.scratch = scratch
        self.hta_python: Path | None = args.hta_python
        self.rounds: int = 1 if args.quick else args.rounds
        self.scale = 0.05 if args.quick else 1.0
        self.traces: Path = args.traces
        self.label = args.source.name.split(".")[0] if args.source else "simulated"
        self.template = Template.of(source_text(args.source))
        hta = {"traceinsight": _peer_version(self.hta_python)} if self.hta_python else {}
        self.report = Report("load", hta)
        self.report.content["source"] = self.label
        self.imports = {
            "read": self._imports("read", sys.executable, READ),
            "report": self._imports("report", sys.executable, REPORT_IMPORTS),
        }
        if self.hta_python:
            self.imports["hta"] = self._imports("hta", self.hta_python, HTA)

    def _imports(self, whose: str, python: str | Path, code: str) -> float:
        samples = [run([python, "-c", code]) for _ in range(3)]
        self.report.keep(f"imports {whose}", samples)
        print(f"imports alone, {whose}: {median(samples, 'cpu_s'):.2f} s of CPU")
        return median(samples, "cpu_s")

    def trace(self, name: str, *, mb: float = 0, events: int = 0, rank: int = 0) -> Path:
        """A grown trace, made on first use."""
        path = self.traces / f"{self.label}-{self.scale:g}-{name}"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            copies = copies_for(self.template, mb=mb * self.scale, events=round(events * self.scale))
            grow(self.template, path, copies, rank=rank, world=8)
        path.read_bytes()  # into the page cache, for every contender alike
        return path

    def rounds_of(self, label: str, commands: dict[str, Sequence[str | Path]]) -> dict[str, list[Sample]]:
        """Every command once a round, in turns; each is known by whose imports it pays for."""
        samples: dict[str, list[Sample]] = {name: [] for name in commands}
        for number in range(self.rounds):
            for name, command in commands.items():
                samples[name].append(run(command))
            took = ", ".join(f"{n} {s[-1].wall_s:.2f} s wall {s[-1].cpu_s:.2f} s CPU" for n, s in samples.items())
            print(f"{label}, round {number + 1}: {took}", flush=True)
        for name, taken in samples.items():
            self.report.keep(f"{label}: {name}", taken)
        return samples

    def net(self, sample: Sample, whose: str) -> float:
        """CPU seconds without those of the imports."""
        return max(0.001, sample.cpu_s - self.imports[whose])

    def against_hta(
        self, label: str, whose: str, command: Sequence[str | Path], hta: str, paths: Sequence[Path]
    ) -> Pairs:
        """Our command and HTA's ("load" or "breakdown") on the same files; every round's ratios are printed."""
        commands = {whose: command}
        if self.hta_python:
            commands["hta"] = [self.hta_python, "-c", HTA, hta, *paths]
        samples = self.rounds_of(label, commands)
        pairs = list(zip(samples[whose], samples.get("hta", []), strict=False))
        ratios: dict[str, list[float]] = {
            "wall": [theirs.wall_s / ours.wall_s for ours, theirs in pairs],
            "CPU": [theirs.cpu_s / ours.cpu_s for ours, theirs in pairs],
            "CPU without imports": [self.net(theirs, "hta") / self.net(ours, whose) for ours, theirs in pairs],
            "peak memory": [theirs.peak_rss_bytes / ours.peak_rss_bytes for ours, theirs in pairs],
        }
        for what, values in ratios.items():
            if values:
                print(f"{label}: hta/{whose}, {what}: {', '.join(f'{value:.1f}' for value in values)}")
        return Pairs(samples[whose], {what: statistics.median(v) for what, v in ratios.items() if v})

    # ---- the cases

    def one_file(self, suffix: str) -> None:
        """200 MB: the columns, and the whole report beside them."""
        path = self.trace(f"200mb{suffix}", mb=200)
        commands = {
            "read": [sys.executable, "-c", READ, path],
            "report": report_command(path, self.scratch, "--no-cache"),
        }
        for (whose, command), hta in zip(commands.items(), ("load", "breakdown"), strict=True):
            label = f"200 MB {suffix[1:]} {whose}"
            pairs = self.against_hta(label, whose, command, hta, [path])
            if pairs.ratios:
                self.report.target(f"{label}: CPU without imports, hta/ours", pairs.ratios["CPU without imports"], 9)

    def folder(self, suffix: str) -> None:
        """8 files of 50 MB, two workers: the whole report against HTA's load and breakdown."""
        paths = [self.trace(f"dir8{suffix}/rank{rank}.json{suffix}", mb=50, rank=rank) for rank in range(8)]
        command = report_command(paths[0].parent, self.scratch, "--no-cache", "--jobs", "2")
        label = f"8 files{suffix}, 2 workers, report"
        pairs = self.against_hta(label, "report", command, "breakdown", paths)
        if pairs.ratios:
            self.report.target(f"{label}: wall, hta/ours", pairs.ratios["wall"], 9)

    def memory(self) -> None:
        """1 GB: peak resident memory, of reading alone and of the report."""
        path = self.trace("1gb.json", mb=1000)
        pairs = self.against_hta("1 GB read", "read", [sys.executable, "-c", READ, path], "load", [path])
        report = self.rounds_of("1 GB", {"report": report_command(path, self.scratch, "--no-cache")})["report"]
        for whose, samples in (("read", pairs.ours), ("report", report)):
            peak = median(samples, "peak_rss_bytes")
            self.report.target(
                f"1 GB {whose}: peak memory over raw size", peak / path.stat().st_size, 0.7, at_least=False
            )
        if pairs.ratios:
            self.report.target("1 GB read: peak memory, hta/ours", pairs.ratios["peak memory"], 6)

    def cache(self) -> None:
        """Warm against cold, whole processes with their imports."""
        path = self.trace("200mb.json", mb=200)
        warm = report_command(path, self.scratch, "--cache-dir", self.scratch / "cache")
        run(warm)
        samples = self.rounds_of("200 MB", {"cold": report_command(path, self.scratch, "--no-cache"), "warm": warm})
        ratio = median(samples["cold"], "wall_s") / median(samples["warm"], "wall_s")
        self.report.target("warm against cold: wall, imports included", ratio, 10)
        net = [statistics.median(self.net(sample, "report") for sample in samples[name]) for name in ("cold", "warm")]
        self.report.target("warm against cold: CPU without imports", net[0] / net[1], 10)

    def cost_per_event(self) -> None:
        """Nanoseconds of CPU an event, without imports, from 0.1 to 8 million events."""
        costs: dict[int, float] = {}
        for events in (100_000, 500_000, 2_000_000, 8_000_000):
            path = self.trace(f"{events}.json", events=events)
            taken = self.rounds_of(f"{events:,} events", {"read": [sys.executable, "-c", READ, path]})["read"]
            read = int(taken[0].output)
            costs[read] = statistics.median(self.net(sample, "read") for sample in taken) / read * 1e9
            print(f"{read:,} events: {costs[read]:.0f} ns an event")
        self.report.content["ns_per_event"] = costs
        spread = max(costs.values()) / min(costs.values()) - 1
        self.report.target("cost per event: largest over smallest, less 1", spread, 0.2, at_least=False, unit="")


def _peer_version(python: Path) -> str:
    return run([python, "-c", "from importlib.metadata import version; print(version('traceinsight'))"]).output


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hta-python", type=Path, help="Python of an environment with HTA (make bench-hta)")
    parser.add_argument("--from", dest="source", type=Path, help="trace to grow; default: a simulated one")
    parser.add_argument("--traces", type=Path, default=ROOT / "benchmarks/.traces", help="where grown traces are kept")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="a twentieth of the size, one round")
    parser.add_argument("--only", default="", help="json,gz,folder,folder-gz,memory,cache,events")
    args = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as scratch:
        run_cases(Bench(args, Path(scratch)), args.only.split(",") if args.only else [])


def run_cases(bench: Bench, only: Sequence[str]) -> None:
    """All cases, or those named; one that fails is said and the others go on."""
    cases: dict[str, Callable[[], None]] = {
        "json": lambda: bench.one_file(".json"),
        "gz": lambda: bench.one_file(".json.gz"),
        "folder": lambda: bench.folder(""),
        "folder-gz": lambda: bench.folder(".gz"),
        "memory": bench.memory,
        "cache": bench.cache,
        "events": bench.cost_per_event,
    }
    for name in only or cases:
        try:
            cases[name]()
        except Failed as error:
            print(f"FAILED {name}: {error}")
    bench.report.write(quick=bench.scale < 1)


if __name__ == "__main__":
    main()
