"""Report where the time of a run went, which rank holds the others up, why, and what to change.

PATH is a run directory of the collector, a trace file, several, a folder (searched through), or a pattern in quotes. Of
several runs below it the newest whole one is reported and the others are listed.

examples:
  rankscope report traces/                          read a folder, report in the terminal
  rankscope report job/                             a run directory: pulse, events, dumps and traces together
  rankscope report traces/ -o report.html           one self-contained page to look at and pass on
  rankscope report rank0.json.gz rank1.json.gz      just these files
  rankscope report 'runs/*/rank_*' --run runs-2025  the run whose id begins so
  rankscope report traces/ --ranks 0,8-15           only these ranks (others' waits are then unknown)
  rankscope report traces/ --steps 3-10             only these ProfilerSteps
  rankscope report traces/ --format markdown        for a ticket or a pull request
  rankscope report traces/ --format json | jq .findings
  rankscope report traces/ --fail-on critical       for scripts: exit status 1 when something critical is found

exit status: 0 done, 1 findings at or above --fail-on, 2 bad usage, nothing readable, or a damaged file with --strict
"""

from __future__ import annotations

import argparse
import math
import os
from typing import TYPE_CHECKING

from rankscope.ui import output

if TYPE_CHECKING:
    from rankscope.analyzers.findings import Diagnosis
    from rankscope.run import Run

FORMATS = ("terminal", "html", "markdown", "json")
NAMED = 10  # damaged files that --strict names
MOST_NUMBERS = 1_000_000  # ranks or steps that one option may list


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    selection(parser)
    add = parser.add_argument
    add("--format", choices=FORMATS, help="default: by the name of -o, else terminal")
    add("-o", "--output", metavar="FILE", help="write there instead of to standard output")
    add("--rules", type=_words, metavar="LIST", help="only these rules; `rankscope rules` lists them")
    add(
        "--fail-on",
        choices=("warning", "critical", "never"),
        default="never",
        help="exit with 1 on such findings (default: never)",
    )
    add("--gpu-hour-price", type=_price, metavar="X", help="price findings in money as well, at X a GPU-hour")
    add(
        "--strict",
        action="store_true",
        help="exit with 2 when a file is unreadable, truncated or damaged, after the report",
    )


def selection(parser: argparse.ArgumentParser) -> None:
    """Declare the options of every command that reads a run."""
    add = parser.add_argument
    add("paths", nargs="+", metavar="PATH", help="run directories, trace files, folders or patterns")
    add("--ranks", type=numbers, metavar="LIST", help="only these ranks, such as 0,8-15")
    add("--steps", type=numbers, metavar="LIST", help="only these ProfilerStep numbers, such as 3-10")
    add("--run", metavar="ID", help="which of several runs; ids are listed in the report, their beginning is enough")
    add(
        "--jobs",
        type=_positive,
        metavar="N",
        help="at most so many worker processes (default: as CPUs and memory allow)",
    )
    add(
        "--communication",
        action="append",
        default=[],
        metavar="TEXT",
        help="kernels with TEXT in their names communicate",
    )
    add(
        "--checkpoint",
        action="append",
        default=[],
        metavar="TEXT",
        help="ranges with TEXT in their names are checkpoints",
    )
    add("--no-cache", action="store_true", help="neither use nor keep what was read before")
    add("--cache-dir", metavar="DIR", help="keep the cache there (default: $XDG_CACHE_HOME/rankscope)")


def loaded(args: argparse.Namespace) -> Run:
    """The run that was selected, with a progress bar while it is read."""
    from rankscope import load

    with output.Bar() as bar:
        return load(
            *args.paths, ranks=args.ranks, steps=args.steps, run=args.run, jobs=args.jobs,
            cache=not args.no_cache, cache_dir=args.cache_dir, progress=bar,
            communication=args.communication, checkpoint=args.checkpoint,
        )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Make the report."""
    from rankscope.analyzers.rules import load_rules

    load_rules(args.rules)  # a rule that does not exist is said before anything is read
    found = loaded(args)
    diagnosis = found.diagnose(args.rules, gpu_hour_price=args.gpu_hour_price)
    chosen = args.format or by_name(args.output)
    to_file = args.output not in (None, "-")
    output.put(rendered(diagnosis, chosen, to_file=to_file), args.output)
    if chosen != "terminal":
        for warning in diagnosis.warnings:
            output.say(f"warning: {warning}")
    if to_file:
        output.say(f"wrote {args.output}")
    if args.strict and found.damaged:
        more = len(found.damaged) - NAMED
        output.say(f"not whole: {', '.join(found.damaged[:NAMED])}" + (f" and {more:,} more" if more > 0 else ""))
        return 2
    return int(reached(diagnosis, args.fail_on))


def by_name(path: str | None) -> str:
    """The format that a file's name asks for."""
    ending = os.path.splitext(path or "")[1].lower()
    return {".html": "html", ".htm": "html", ".json": "json", ".md": "markdown"}.get(ending, "terminal")


def rendered(diagnosis: Diagnosis, chosen: str, *, to_file: bool = False) -> str:
    """The report as text in one of FORMATS."""
    if chosen == "json":
        from rankscope.reports.renderers import json

        return json.render(diagnosis)
    if chosen == "html":
        from rankscope.reports.renderers import html

        return html.render(diagnosis)
    if chosen == "markdown":
        from rankscope.reports.renderers import markdown

        return markdown.render(diagnosis)
    from rankscope.reports.renderers import terminal

    text = terminal.render(diagnosis, width=output.width(), colour=output.colour() and not to_file)
    return text if to_file or output.draws(terminal.GLYPHS) else terminal.in_ascii(text)


def reached(diagnosis: Diagnosis, threshold: str) -> bool:
    """Whether a finding is as severe as `threshold` or worse."""
    severe = {"warning": ("warning", "critical"), "critical": ("critical",), "never": ()}[threshold]
    return any(finding.severity in severe for finding in diagnosis.findings)


def numbers(text: str) -> frozenset[int]:
    """`0,8-15` as numbers."""
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()) or max(len(first), len(last)) > 12:
            raise argparse.ArgumentTypeError(f"{part.strip()!r} is neither a number nor a range such as 8-15")
        span = range(int(first), int(last or first) + 1)
        if not span:
            raise argparse.ArgumentTypeError(f"{part.strip()!r} ends before it begins")
        if len(found) + len(span) > MOST_NUMBERS:
            raise argparse.ArgumentTypeError(f"{text!r} lists more than {MOST_NUMBERS:,} numbers")
        found.update(span)
    return frozenset(found)


def _words(text: str) -> tuple[str, ...]:
    words = tuple(word.strip() for word in text.split(",") if word.strip())
    if not words:
        raise argparse.ArgumentTypeError(f"{text!r} names nothing")
    return words


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of processes, 1 or more")
    return int(text)


def _price(text: str) -> float:
    try:
        price = float(text)
    except ValueError:
        price = math.nan
    if not 0 <= price < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a price")
    return price
