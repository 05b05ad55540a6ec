"""Say what the rules look for: why it matters, how it is measured, what to do, and each threshold with its source.

examples:
  rankscope rules                    every rule with its title
  rankscope rules straggler-rank     one rule in full
  rankscope rules --format json      all of it for a program
  rankscope rules --format markdown  all of it as one page (docs/rules.md)
"""

from __future__ import annotations

import argparse
import textwrap
from typing import TYPE_CHECKING

from rankscope.ui import output

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rankscope.analyzers.rule_docs import RuleDoc


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("rule", nargs="?", metavar="ID", help="one rule")
    parser.add_argument(
        "--format", choices=("terminal", "json", "markdown"), default="terminal", help="default: terminal"
    )


def run(args: argparse.Namespace) -> int:
    """Show the documentation of the rules."""
    import msgspec

    from rankscope.analyzers.rule_docs import rule_doc
    from rankscope.analyzers.rules import load_rules

    docs = [rule_doc(rule) for rule in load_rules(None if args.rule is None else [args.rule])]
    if args.format == "json":
        output.put(msgspec.json.format(msgspec.json.encode(docs), indent=2).decode() + "\n", None)
    elif args.format == "markdown":
        output.put(as_page(docs), None)
    elif args.rule is None:
        longest = max((len(doc.id) for doc in docs), default=0)
        output.put("".join(f"{doc.id:{longest}}  {doc.title}\n" for doc in docs), None)
    else:
        output.put("\n".join(in_full(doc) for doc in docs), None)
    return 0


def in_full(doc: RuleDoc) -> str:
    """One rule's documentation as text."""
    width = min(output.width(), 100)
    parts = [doc.id, doc.title, ""]
    for heading, text in (
        ("", doc.summary),
        ("Why it matters", doc.why_it_matters),
        ("How it is measured", doc.how_it_is_measured),
        ("What to do", doc.what_to_do),
    ):
        if text and text != doc.title:
            parts += [heading] * bool(heading) + [
                textwrap.fill(text, width, initial_indent="  ", subsequent_indent="  "),
                "",
            ]
    if doc.thresholds:
        parts.append("Thresholds")
        for threshold in doc.thresholds:
            line = f"{threshold.name} = {threshold.value}: {threshold.source}"
            parts.append(textwrap.fill(line, width, initial_indent="  ", subsequent_indent="      "))
    return "\n".join(parts).rstrip() + "\n"


def as_page(docs: Sequence[RuleDoc]) -> str:
    """The documentation of these rules as one Markdown page, a list of them first."""
    lines = [
        "# Rules",
        "",
        "Written by `rankscope rules --format markdown`; each rule documents itself in its own file.",
        "",
    ]
    lines += [f"- [{doc.id}](#{doc.id}): {doc.title}" for doc in docs]
    for doc in docs:
        lines += ["", f"## {doc.id}", "", f"**{doc.title}.** {doc.summary}", ""]
        for heading, text in (
            ("Why it matters", doc.why_it_matters),
            ("How it is measured", doc.how_it_is_measured),
            ("What to do", doc.what_to_do),
        ):
            lines += [f"*{heading}.* {_cell(text)}", ""]
        if doc.thresholds:
            lines += ["| threshold | value | source |", "|---|---|---|"]
            lines += [f"| `{t.name}` | {_cell(t.value)} | {_cell(t.source)} |" for t in doc.thresholds]
    return "\n".join(lines).rstrip() + "\n"


def _cell(text: str) -> str:
    """Text of a rule in Markdown: stars, bars and double underscores are themselves, except in code."""
    parts = text.split("`")
    parts[::2] = [part.replace("|", "\\|").replace("*", "\\*").replace("__", "\\_\\_") for part in parts[::2]]
    return "`".join(parts)
