"""What the README tells a newcomer to type works, and what the pages point at is there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from rankscope.analyzers.rules import load_rules

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    targets = [target for target in re.findall(r"\]\(([^)\s]+)\)", text) if not target.startswith("http")]
    for target in targets:
        path, _, anchor = target.partition("#")
        linked = (page.parent / path) if path else page
        assert linked.is_file(), target
        if anchor:
            headings = re.findall(r"^#+ (.+)$", linked.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}, target


def test_make_targets_of_the_readme_are_in_the_makefile() -> None:
    targets = set(re.findall(r"^(\w[\w-]*):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    named = set(re.findall(r"make (\w[\w-]*)  ", README))
    assert {"demo", "test", "bench"} <= named <= targets


def test_commands_of_the_readme_parse() -> None:
    from rankscope.ui.cli import parser

    lines = re.findall(r"^ {4}rankscope (.+?)(?: {2,}#.*)?$", README, re.MULTILINE)
    assert len(lines) >= 4
    for line in lines:
        parser().parse_args(line.split())


def test_python_of_the_readme_is_python() -> None:
    blocks = re.findall(r"```python\n(.+?)```", README, re.DOTALL)
    assert len(blocks) == 3
    for block in blocks:
        ast.parse(block)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_rules_that_pages_name_exist(page: Path) -> None:
    ids = {rule.id for rule in load_rules()}
    commands = re.findall(r"rankscope rules ([a-z][a-z-]+)", page.read_text(encoding="utf-8"))
    assert set(commands) <= ids


def test_the_page_of_rules_is_what_the_rules_say() -> None:
    from rankscope.analyzers.rule_docs import rule_doc
    from rankscope.ui.commands.rules import as_page

    page = (ROOT / "docs/rules.md").read_text(encoding="utf-8")
    assert page == as_page([rule_doc(rule) for rule in load_rules()]), "rankscope rules --format markdown > docs/rules.md"


def test_the_accounting_page_has_every_section_that_code_refers_to() -> None:
    sections = set(re.findall(r"^## (\d+)", (ROOT / "docs/accounting.md").read_text(encoding="utf-8"), re.MULTILINE))
    assert sections == {str(number) for number in range(1, 13)}
    sources = [p for top in ("analyzers", "reports", "ui") for p in (ROOT / top).rglob("*.py")]
    named = {n for p in sources for n in re.findall(r"accounting\.md,? sections? (\d+)", p.read_text(encoding="utf-8"))}
    assert named and named <= sections


def test_keys_of_the_accounting_page_are_keys_of_the_diagnosis() -> None:
    import msgspec

    from rankscope.analyzers.findings import Diagnosis

    page = (ROOT / "docs/accounting.md").read_text(encoding="utf-8")
    block = page[page.index('    {"schema_version"') : page.index("In every row `window_ns")]
    named = set(re.findall(r'"([a-z_]+)"', block))
    schema = str(msgspec.json.schema(Diagnosis))
    assert {key for key in named if f"'{key}'" not in schema} == set()


def test_the_glossary_of_the_accounting_page_is_the_reports() -> None:
    from rankscope.reports.sections.glossary import page

    text = (ROOT / "docs/accounting.md").read_text(encoding="utf-8")
    assert text.endswith(page()), "replace its glossary by reports/sections/glossary.py's page()"
