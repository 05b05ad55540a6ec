"""How often the right rule speaks, and the wrong one: runs whose faults are known, simulated and spliced.

    python benchmarks/accuracy.py                  both columns: 300 healthy and 400 faulty runs each
    python benchmarks/accuracy.py --tuning         the seeds that were used while rules were made
    python benchmarks/accuracy.py --frozen         seeds that nobody looked at before the rules were final
    python benchmarks/accuracy.py --quick          a tenth of the runs

Runs that were judged before by the same code are not run again: what was broken off goes on (results/accuracy.jsonl).

Every share has its exact 95 % interval. Delays are 10 to 40 % of the step. On spliced runs only findings count that the
run as it was recorded does not have; they need the traces that the tests name RANKSCOPE_CORPUS.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import Any

from accuracy_judged import Outcome, judge
from accuracy_kept import code, keep, known
from accuracy_runs import MOST_RANKS, RECORDED, Run, faulty, healthy, recorded_paths, spliced, spliced_healthy
from intervals import interval
from measure import RESULTS, Report, environment

from rankscope.simulator import Scenario

# Frozen seeds are run once the rules are final, and not looked at before.
SEEDS = {"tuning": 10_000, "frozen": 8_000_000}  # first seed of each column
HEALTHY, FAULTY = 300, 400
PARTS: Sequence[tuple[Callable[[int], Run], float]] = (  # and how many of all runs each is
    (healthy, HEALTHY / (HEALTHY + FAULTY)),
    (faulty, 300 / (HEALTHY + FAULTY)),
    (spliced, 80 / (HEALTHY + FAULTY)),
    (spliced_healthy, 20 / (HEALTHY + FAULTY)),
)


def drawn(first: int, count: int, most_ranks: int) -> list[Run]:
    """The runs of one column, without those of more ranks."""
    here = all(recorded_paths(name) for name in RECORDED)
    parts = [(make, share) for make, share in PARTS if here or make in (healthy, faulty)]
    runs = [make(first + i) for make, share in parts for i in range(max(1, round(count * share)))]
    return [run for run in runs if run.scenario is None or run.scenario.ranks <= most_ranks]


def size(job: Scenario) -> int:
    """What the time for a run grows with."""
    return job.ranks * job.steps * job.layers * job.micro_batches


def outcomes(runs: Sequence[Run], jobs: int) -> Iterator[Outcome]:
    """Every run judged, as they come."""
    if jobs == 1:
        yield from map(judge, runs)
        return
    with ProcessPoolExecutor(jobs) as pool:
        # the biggest first, so that no worker is left with one at the end
        sized = sorted(runs, key=lambda run: -size(run.scenario) if run.scenario else 0)
        for done in as_completed([pool.submit(judge, run) for run in sized]):
            yield done.result()


def shown(coming: Iterable[Outcome], total: int) -> list[Outcome]:
    """The outcomes, with a bar on a terminal and a line now and then elsewhere."""
    begin, seen = time.monotonic(), []
    for outcome in coming:
        seen.append(outcome)
        line = f"{len(seen)} of {total} runs, {time.monotonic() - begin:.0f} s"
        if sys.stderr.isatty():
            width = 30 * len(seen) // total
            print(f"\r[{'#' * width}{'.' * (30 - width)}] {line}", end="", file=sys.stderr, flush=True)
        elif len(seen) % max(1, total // 10) == 0:
            print(line, file=sys.stderr, flush=True)
        if outcome.wrong:
            print(f"\n  {outcome.wrong}", file=sys.stderr, flush=True)
    return seen


def share(found: int, of: int) -> dict[str, Any]:
    """A share with its interval, to be kept."""
    low, high = interval(found, of) if of else (0.0, 1.0)
    return {"found": found, "of": of, "share": found / of if of else None, "interval_95": [low, high]}


def figures(judged: Sequence[Outcome]) -> dict[str, Any]:
    """All figures of one column."""
    planted = [o for o in judged if o.run.rule]
    sized = [o for o in planted if o.large_enough]
    ranked = [o for o in sized if o.run.ranks and o.run.rule == "straggler-rank"]
    well = [o for o in judged if not o.run.rule and o.run.scenario]
    clean = [o for o in judged if not o.run.rule and not o.run.scenario]
    groups = {"": lambda o: True, "simulated": lambda o: o.run.scenario, "spliced": lambda o: not o.run.scenario}
    found: dict[str, Any] = {
        f"{what}{', ' if group else ''}{group}": share(sum(map(right, chosen)), len(chosen))
        for what, among, right in (
            ("rank top-1", ranked, lambda o: o.rank_first),
            ("planted rule first", sized, lambda o: o.rule_first),
        )
        for group, member in groups.items()
        for chosen in [[o for o in among if member(o)]]
    }
    found["healthy, no finding of kind time"] = share(sum(not o.time_rules for o in well), len(well))
    found["healthy, no rank named"] = share(sum(not o.accused for o in well), len(well))
    found["spliced without a fault, no new finding of kind time"] = share(
        sum(not o.time_rules for o in clean), len(clean)
    )
    found["hidden or below 10 % of the step, left out of the above"] = len(planted) - len(sized)
    return {"shares": found, "rules": rules(judged), "kinds": kinds(planted)}


def rules(judged: Sequence[Outcome]) -> dict[str, Any]:
    """Precision and recall of each rule. Another rule that speaks beside the planted one counts against it."""
    spoke = Counter(rule for o in judged for rule in o.rules)
    right = Counter(o.run.rule for o in judged if o.run.rule in o.rules)
    planted = Counter(o.run.rule for o in judged if o.run.rule)
    beside: dict[str, Counter[str]] = defaultdict(Counter)
    for o in judged:
        for rule in o.rules - {o.run.rule}:
            beside[rule][o.run.name] += 1
    return {
        rule: {
            "precision": share(right[rule], spoke[rule]), "recall": share(right[rule], planted[rule]),
            "beside": dict(beside[rule]),
        }
        for rule in sorted(set(spoke) | {name for name in planted if name})
    }  # fmt: skip


def kinds(planted: Sequence[Outcome]) -> dict[str, Any]:
    """Planted rule first, by kind of fault."""
    names = sorted({o.run.name for o in planted})
    chosen = {name: [o for o in planted if o.run.name == name and o.large_enough] for name in names}
    return {name: share(sum(o.rule_first for o in mine), len(mine)) for name, mine in chosen.items()}


TARGETS = {"rank top-1": 0.98, "planted rule first": 0.95, "healthy, no finding of kind time": 0.99}


def printed(columns: dict[str, Any]) -> None:
    """The figures of all columns side by side."""

    def cell(column: str, *path: str) -> str:
        value = columns[column]["figures"]
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        if isinstance(value, dict) and value["share"] is not None:
            low, high = value["interval_95"]
            return f"{value['found']}/{value['of']} = {value['share']:.1%} ({low:.1%} to {high:.1%})"
        return "-" if value is None or isinstance(value, dict) else str(value)

    def row(label: str, *path: str) -> None:
        print(f"{label:58}" + "".join(f"{cell(column, *path):38}" for column in columns))

    print(f"{'':58}" + "".join(f"{column + ' seeds':38}" for column in columns))
    for what in next(iter(columns.values()))["figures"]["shares"]:
        row(what, "shares", what)
    for part, path in (("rules", ("precision", "recall")), ("kinds", ())):
        for name in sorted({name for column in columns.values() for name in column["figures"][part]}):
            for last in path or ("",):
                row(f"  {name} {last}".rstrip(), part, name, *([last] if last else []))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tuning", action="store_true", help="only this column; the other stays as it was")
    parser.add_argument("--frozen", action="store_true", help="only this column; the other stays as it was")
    parser.add_argument("--quick", action="store_true", help="a tenth of the runs; the results are not kept")
    parser.add_argument("--runs", type=int, default=HEALTHY + FAULTY, help="runs a column")
    parser.add_argument("--most-ranks", type=int, help="leave bigger runs out; the results are not kept")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    args = parser.parse_args(arguments)
    asked = [column for column in SEEDS if getattr(args, column)] or list(SEEDS)
    count = args.runs // 10 if args.quick else args.runs
    partly = args.quick or args.most_ranks is not None
    columns: dict[str, Any] = {}
    kept = RESULTS / "accuracy.json"
    if kept.exists() and not partly:
        columns = {k: v for k, v in json.loads(kept.read_text())["columns"].items() if k in SEEDS}
    report = Report("accuracy")
    for column in asked:
        runs = drawn(SEEDS[column], count, args.most_ranks or MOST_RANKS)
        before = known(runs)
        done = [outcome.run for outcome in before]
        left = [run for run in runs if run not in done]
        judged = before + shown(keep(outcomes(left, args.jobs)), len(left))
        columns[column] = {"first_seed": SEEDS[column], "runs": len(runs), "code": code()} | {
            "environment": environment(),
            "figures": figures(judged),
            "wrong": sorted(o.wrong for o in judged if o.wrong),
        }
    columns = {column: columns[column] for column in SEEDS if column in columns}
    printed(columns)
    for column in columns:
        for what, bound in TARGETS.items():
            value = columns[column]["figures"]["shares"][what]["share"]
            report.target(f"{column} seeds: {what}", value if value is not None else 0.0, bound, unit="of runs")
    report.content["columns"] = columns
    report.write(quick=partly)


if __name__ == "__main__":
    main()
