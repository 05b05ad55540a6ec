"""How long a report on a long run directory without traces takes, and what it holds in memory.

    python benchmarks/pulse.py                 8 ranks x 100,000 steps
    python benchmarks/pulse.py --ranks 64 --steps 100000
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

import measure

sys.path.insert(0, str(measure.ROOT / "tests"))
STEP = """
import sys, time, json
import rankscope
begin = time.perf_counter()
run = rankscope.load(sys.argv[1], cache=False)
read = time.perf_counter()
found = run.diagnose()
named = [finding.ranks for finding in found.findings if finding.rule == "straggler-rank"]
print(json.dumps({"read_s": read - begin, "judged_s": time.perf_counter() - read, "named": named}))
"""


def written(place: Path, ranks: int, steps: int) -> int:
    """A run directory of so many ranks and steps, rank 1 late; its bytes. Steps repeat, only their numbers differ."""
    from runs_made import BEGIN, MS, Job

    job = Job(ranks=ranks, steps=50, late={(1, "forward"): 30})
    total = 0
    for lines, folder in zip(job.lines(), job.write(place), strict=True):
        with (folder / "pulse.jsonl").open("w") as file:
            for step in range(steps):
                record = lines[step % 50] | {"step": step, "begin_ns": BEGIN + step * 240 * MS}
                total += file.write(json.dumps(record, separators=(",", ":")) + "\n")
    return total


def main() -> int:
    """Write, read, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--steps", type=int, default=100_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        place = Path(made)
        size = written(place, given.ranks, given.steps)
        sample = measure.run([sys.executable, "-c", STEP, place])
    told = json.loads(sample.output)
    print(f"{given.ranks} ranks x {given.steps:,} steps, {size / 1e6:,.0f} MB, named {told['named']}")
    print(f"read {told['read_s']:.1f} s, judged {told['judged_s']:.1f} s, most memory {sample.peak_rss_bytes / 1e6:,.0f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
