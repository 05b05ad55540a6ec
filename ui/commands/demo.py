"""Simulate an eight-rank run with a planted fault, report it, and write the report's page.

examples:
  rankscope demo             writes rankscope-demo/: eight traces and report.html
  rankscope demo -o DIR      writes them there
"""

from __future__ import annotations

import argparse
from pathlib import Path

from rankscope.ui import output
from rankscope.ui.commands.report import rendered


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "-o", "--output", metavar="DIR", default="rankscope-demo", help="where to write (default: rankscope-demo)"
    )


def run(args: argparse.Namespace) -> int:
    """Simulate, report and write."""
    from rankscope import diagnose
    from rankscope.simulator import demo

    folder = Path(args.output)
    traces = folder / "traces"
    demo.write(traces)
    diagnosis = diagnose(traces, cache=False)
    page = folder / "report.html"
    output.put(rendered(diagnosis, "html"), str(page))
    output.put(rendered(diagnosis, "terminal"), None)
    output.say(f"the same as a page: {page}")
    output.say(f"the traces it was made from: {traces}; read them yourself with `rankscope report {traces}`")
    return 0
