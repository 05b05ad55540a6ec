"""One clock for the run: hosts whose clocks are 10 s apart and drift by 100 ppm, found again from simulated ends.

    python benchmarks/clock.py            536 runs with each kind of seed, about three minutes
    python benchmarks/clock.py --quick    a tenth of that

Seeds used while the fit was made stand beside others that were not looked at before. Runs with at least 50 collectives of
each group carry the targets; shorter ones are printed beside them.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any

from clock_runs import Score, drawn, from_ends, from_files, summary, wider
from measure import Report

FEW, MANY, MOST = 3, 50, 400  # collectives of each group
SEEDS = {"frozen": 8_000_000, "tuning": 1_000}  # first seed of each kind
KINDS: dict[str, tuple[int, Callable[[int], Score]]] = {  # name -> how many runs, and how one is made from its seed
    "50 to 400 collectives": (300, lambda seed: from_ends(drawn(seed, MANY, MOST))),
    "50 to 400, without Seq": (40, lambda seed: from_ends(drawn(seed + 10_000, MANY, MOST), numbered=False)),
    "whole files": (16, from_files),
    "3 to 49 collectives": (120, lambda seed: from_ends(drawn(seed + 20_000, FEW, MANY - 1))),
    "jitter of 5 to 50 us as standard deviation": (
        60,
        lambda seed: from_ends(wider(drawn(seed + 30_000, MANY, MOST))),
    ),
}
WITH_TARGETS = ("50 to 400 collectives", "50 to 400, without Seq", "whole files")


def measured(first: int, share: float) -> dict[str, list[Score]]:
    """All runs with the seeds from `first` on."""
    return {name: [make(first + i) for i in range(max(2, round(n * share)))] for name, (n, make) in KINDS.items()}


def line(name: str, found: dict[str, Any]) -> str:
    """One line a kind of run."""
    low, high = found["covered_interval"]
    return (
        f"  {name}: {found['runs']} runs, error p50 {found['error_p50_us']:.1f} p99 {found['error_p99_us']:.1f} us, "
        f"covered {found['covered_share']:.4f} [{low:.4f}, {high:.4f}], residual / jitter p50 {found['ratio_p50']:.2f} "
        f"p99 {found['ratio_p99']:.2f} max {found['ratio_largest']:.2f}, refused {found['pairs_refused']} of "
        f"{found['pairs_apart']} pairs, wrongly {found['pairs_wrongly_refused']}"
    )


def judge(results: Report, which: str, scores: Sequence[Score]) -> None:
    """The targets, over all runs that carry them."""
    found = summary(scores)
    label = f"{which} seeds, {found['runs']} runs"
    results.target(f"{label}: p99 error", found["error_p99_us"], 20.0, at_least=False, unit="us")
    results.target(f"{label}: residual covers the error", found["covered_share"], 0.95, unit="of cases")
    results.target(
        f"{label}: largest residual over p95 of jitter, hosts that share collectives", found["ratio_largest_sharing"],
        1.5, at_least=False,
    )  # fmt: skip
    share = found["pairs_refused"] / max(1, found["pairs_apart"])
    results.target(f"{label}: hosts that share too few refused", share, 1.0, unit="of pairs")
    results.target(f"{label}: others refused", found["pairs_wrongly_refused"], 0.0, at_least=False, unit="pairs")
    results.content["summaries"][which]["all that carry targets"] = found


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the runs")
    args = parser.parse_args(arguments)
    results = Report("clock")
    results.content |= {"seeds": SEEDS, "summaries": {}}
    for which, first in SEEDS.items():
        scores = measured(first, 0.1 if args.quick else 1.0)
        results.content["summaries"][which] = {name: summary(runs) for name, runs in scores.items()}
        print(f"{which} seeds")
        for name, found in results.content["summaries"][which].items():
            print(line(name, found), flush=True)
        judge(results, which, [score for name in WITH_TARGETS for score in scores[name]])
    results.write(quick=args.quick)


if __name__ == "__main__":
    main()
