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
Contender = Callable[[], Sample]


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
        self.imports = {"ours": self._imports([sys.executable, "-c", READ])}
        if self.hta_python:
            self.imports["hta"] = self._imports([self.hta_python, "-c", HTA])

    def _imports(self, command: Sequence[str | Path]) -> list[Sample]:
        samples = [run(command) for _ in range(3)]
        print(f"imports alone: {median(samples, 'cpu_s'):.2f} s of CPU ({Path(str(command[0])).parent.parent.name})")
        return samples

    def trace(self, name: str, *, mb: float = 0, events: int = 0, rank: int = 0) -> Path:
        """A grown trace, made on first use."""
        path = self.traces / f"{self.label}-{self.scale:g}-{name}"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            copies = copies_for(self.template, mb=mb * self.scale, events=round(events * self.scale))
            grow(self.template, path, copies, rank=rank, world=8)
        path.read_bytes()  # into the page cache, for every contender alike
        return path

    def rounds_of(self, label: str, contenders: dict[str, Contender]) -> dict[str, list[Sample]]:
        """Every contender once a round, in turns."""
        samples: dict[str, list[Sample]] = {name: [] for name in contenders}
        for number in range(self.rounds):
            for name, contender in contenders.items():
                samples[name].append(contender())
            took = ", ".join(f"{n} {s[-1].wall_s:.2f} s wall {s[-1].cpu_s:.2f} s CPU" for n, s in samples.items())
            print(f"{label}, round {number + 1}: {took}{self._ratio(samples)}", flush=True)
        for name, taken in samples.items():
            self.report.keep(f"{label} {name}", taken)
        return samples

    def _ratio(self, samples: dict[str, list[Sample]]) -> str:
        if "hta" not in samples:
            return ""
        ours, hta = samples["ours"][-1], samples["hta"][-1]
        net = self.net(hta.cpu_s, "hta") / self.net(ours.cpu_s, "ours")
        wall, cpu = hta.wall_s / ours.wall_s, hta.cpu_s / ours.cpu_s
        return f"; hta/ours: wall {wall:.1f}, CPU {cpu:.1f}, without imports {net:.1f}"

    def net(self, cpu_s: float, whose: str) -> float:
        """CPU seconds without those of the imports."""
        return max(0.001, cpu_s - median(self.imports[whose], "cpu_s"))

    def against_hta(
        self, label: str, ours: Sequence[str | Path], what: str, paths: Sequence[Path]
    ) -> dict[str, list[Sample]]:
        """Our command and HTA's on the same files."""
        contenders: dict[str, Contender] = {"ours": lambda: run(ours)}
        if self.hta_python:
            hta = [self.hta_python, "-c", HTA, what, *paths]
            contenders["hta"] = lambda: run(hta)
        return self.rounds_of(label, contenders)

    def cpu_target(self, label: str, samples: dict[str, list[Sample]]) -> None:
        """The target for CPU seconds without imports: the median over the rounds of each round's ratio."""
        if "hta" in samples:
            pairs = zip(samples["hta"], samples["ours"], strict=True)
            ratios = [self.net(hta.cpu_s, "hta") / self.net(ours.cpu_s, "ours") for hta, ours in pairs]
            self.report.target(f"{label}: CPU without imports, hta/ours", statistics.median(ratios), 9)

    # ---- the cases

    def one_file(self, suffix: str) -> None:
        """200 MB: the columns, and the whole report beside them."""
        path = self.trace(f"200mb{suffix}", mb=200)
        read = [sys.executable, "-c", READ, path]
        self.cpu_target(
            f"200 MB {suffix[1:]} read", self.against_hta(f"200 MB {suffix[1:]} read", read, "load", [path])
        )
        report = report_command(path, self.scratch, "--no-cache")
        label = f"200 MB {suffix[1:]} whole report against HTA's load and breakdown"
        self.cpu_target(label, self.against_hta(label, report, "breakdown", [path]))

    def folder(self, suffix: str) -> None:
        """8 files of 50 MB, two workers: the whole report against HTA's load and breakdown."""
        paths = [self.trace(f"dir8{suffix}/rank{rank}.json{suffix}", mb=50, rank=rank) for rank in range(8)]
        ours = report_command(paths[0].parent, self.scratch, "--no-cache", "--jobs", "2")
        label = f"8 files{suffix}, 2 workers, report"
        samples = self.against_hta(label, ours, "breakdown", paths)
        if "hta" in samples:
            walls = zip(samples["hta"], samples["ours"], strict=True)
            self.report.target(f"{label}: wall, hta/ours", statistics.median(h.wall_s / o.wall_s for h, o in walls), 9)

    def memory(self) -> None:
        """1 GB: peak resident memory."""
        path = self.trace("1gb.json", mb=1000)
        samples = self.against_hta("1 GB read", [sys.executable, "-c", READ, path], "load", [path])
        ours = median(samples["ours"], "peak_rss_bytes")
        self.report.target("1 GB: peak memory over raw size", ours / path.stat().st_size, 0.7, at_least=False)
        if "hta" in samples:
            self.report.target("1 GB: peak memory, hta/ours", median(samples["hta"], "peak_rss_bytes") / ours, 6)

    def cache(self) -> None:
        """Warm against cold, whole processes with their imports."""
        path = self.trace("200mb.json", mb=200)
        cold = report_command(path, self.scratch, "--no-cache")
        warm = report_command(path, self.scratch, "--cache-dir", self.scratch / "cache")
        run(warm)
        samples = self.rounds_of("200 MB report", {"cold": lambda: run(cold), "warm": lambda: run(warm)})
        ratio = median(samples["cold"], "wall_s") / median(samples["warm"], "wall_s")
        self.report.target("warm against cold: wall, imports included", ratio, 10)

    def cost_per_event(self) -> None:
        """Nanoseconds of CPU an event, without imports, from 0.1 to 8 million events."""
        costs: dict[int, float] = {}
        for events in (100_000, 500_000, 2_000_000, 8_000_000):
            path = self.trace(f"{events}.json", events=events)
            command = [sys.executable, "-c", READ, path]
            taken = self.rounds_of(f"{events:,} events", {"ours": lambda command=command: run(command)})["ours"]
            read = int(taken[0].output)
            costs[read] = self.net(median(taken, "cpu_s"), "ours") / read * 1e9
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
