"""What a rule says of itself, from its module: the docstring's parts and the thresholds with their sources."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from dataclasses import dataclass

from rankscope.analyzers.findings import Rule

_HEADING = re.compile(r"^(Why it matters|How it is measured|What to do)[.:]?\s*\n?(?:[-=~]+\n)?", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Threshold:
    """A named figure of a rule, as written, and where it comes from."""

    name: str
    value: str
    source: str


@dataclass(frozen=True, slots=True)
class RuleDoc:
    """The documentation of one rule."""

    id: str
    title: str
    summary: str
    why_it_matters: str
    how_it_is_measured: str
    what_to_do: str
    thresholds: list[Threshold]


def rule_doc(rule: Rule) -> RuleDoc:
    """The documentation of this rule."""
    summary, *parts = _HEADING.split(rule.doc)
    said = {heading: _sentence(text) for heading, text in zip(parts[::2], parts[1::2], strict=True)}
    return RuleDoc(
        rule.id,
        rule.title,
        _sentence(summary),
        said.get("Why it matters", ""),
        said.get("How it is measured", ""),
        said.get("What to do", ""),
        thresholds(rule.id),
    )


def thresholds(rule_id: str) -> list[Threshold]:
    """The numbers that a rule's module names in capitals, with the comment beside or above each."""
    source = inspect.getsource(importlib.import_module(f"rankscope.analyzers.rules.{rule_id.replace('-', '_')}"))
    lines = source.splitlines()
    found = []
    for node in ast.parse(source).body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        value = getattr(node, "value", None)
        if isinstance(target, ast.Name) and target.id.isupper() and isinstance(value, ast.expr) and _is_number(value):
            found.append(
                Threshold(target.id, ast.unparse(value), _comment(lines, node.lineno, node.end_lineno or node.lineno))
            )
    return found


def _is_number(value: ast.expr) -> bool:
    return all(
        isinstance(part, ast.BinOp | ast.UnaryOp | ast.operator | ast.unaryop | ast.Constant)
        for part in ast.walk(value)
    ) and any(isinstance(part, ast.Constant) and isinstance(part.value, int | float) for part in ast.walk(value))


def _comment(lines: list[str], first: int, last: int) -> str:
    """The comment beside lines `first` to `last` (from 1), else the one above them."""
    beside = " ".join(line.partition("#")[2].strip() for line in lines[first - 1 : last]).strip()
    above: list[str] = []
    while not beside and first > 1 and lines[first - 2].lstrip().startswith("#"):
        first -= 1
        above.insert(0, lines[first - 1].strip("# "))
    return beside or " ".join(above)


def _sentence(text: str) -> str:
    """One paragraph with a capital first, unless it begins with a name from code."""
    flat = " ".join(text.split())
    first = flat.partition(" ")[0].rstrip(",;:")
    return flat[:1].upper() + flat[1:] if first.isalpha() and first.islower() else flat
