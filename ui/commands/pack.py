"""Pack a run for a ticket: its report and the tables behind it in one zip file, names of hosts, paths and users hashed.

No trace goes into it. What is in it is listed as it is written, and in its README.

examples:
  rankscope pack traces/                          writes rankscope-pack.zip
  rankscope pack traces/ --no-redact -o mine.zip  names as they were recorded
"""

from __future__ import annotations

import argparse
import secrets

from rankscope.ui import output
from rankscope.ui.commands.report import loaded, selection


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    selection(parser)
    parser.add_argument("-o", "--output", metavar="FILE", default="rankscope-pack.zip", help="default: %(default)s")
    parser.add_argument(
        "--redact",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="hash names of hosts, paths and users (default: yes)",
    )


def run(args: argparse.Namespace) -> int:
    """Read the run and pack it."""
    from rankscope.reports import pack
    from rankscope.reports.redaction import Redactor, sensitive

    found = loaded(args)
    diagnosis = found.diagnose()
    redactor = Redactor(secrets.token_bytes(16), sensitive(diagnosis)) if args.redact else None
    with output.whole_file(args.output) as file:
        members = pack.write(found.analysis, diagnosis, file, redactor)
    output.put(pack.contents(members, redactor), None)
    output.say(f"wrote {args.output}")
    return 0
