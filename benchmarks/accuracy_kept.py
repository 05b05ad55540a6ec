"""Outcomes kept as they come, one line each, so that hours of runs that were broken off go on where they stopped.

An outcome counts only for the code that it was judged by: analysis, simulator and what draws and judges the runs.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from accuracy_judged import Outcome, Spoken
from accuracy_runs import Run
from measure import RESULTS, ROOT

KEPT = RESULTS / "accuracy.jsonl"
JUDGED_BY = ("analyzers", "tests/simulator", "benchmarks/accuracy_runs.py", "benchmarks/accuracy_judged.py")


@cache
def code() -> str:
    """A digest of all code that an outcome depends on."""
    paths = [path for name in JUDGED_BY for path in sorted((ROOT / name).rglob("*.py")) or [ROOT / name]]
    digest = hashlib.sha256()
    for path in paths:
        digest.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def known(runs: Sequence[Run], path: Path = KEPT) -> list[Outcome]:
    """The outcomes of these runs that this code has given before; a line that was cut off is none."""
    asked = {_key(run): run for run in runs}
    found: dict[tuple[str, int], Outcome] = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            kept = json.loads(line)
        except ValueError:
            continue
        run = asked.get((kept["name"], kept["seed"]))
        if run is not None and kept["code"] == code():
            found[_key(run)] = _outcome(run, kept)
    return list(found.values())


def keep(coming: Iterable[Outcome], path: Path = KEPT) -> Iterator[Outcome]:
    """Write each outcome down before it is passed on."""
    path.parent.mkdir(exist_ok=True)
    cut = path.exists() and not path.read_bytes().endswith(b"\n") and path.stat().st_size > 0
    with path.open("a", encoding="utf-8") as out:
        out.write("\n" if cut else "")
        for outcome in coming:
            out.write(json.dumps(_line(outcome)) + "\n")
            out.flush()
            yield outcome


def _key(run: Run) -> tuple[str, int]:
    return run.name, run.seed


def _line(outcome: Outcome) -> dict[str, Any]:
    return {
        "code": code(),
        "name": outcome.run.name,
        "seed": outcome.run.seed,
        "found": [[spoken.rule, spoken.kind, list(spoken.ranks)] for spoken in outcome.found],
        "share": outcome.share,
        "failed": list(outcome.failed),
    }


def _outcome(run: Run, kept: dict[str, Any]) -> Outcome:
    found = tuple(Spoken(rule, kind, tuple(ranks)) for rule, kind, ranks in kept["found"])
    return Outcome(run, found, kept["share"], tuple(kept["failed"]))
