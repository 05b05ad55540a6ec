"""The terminal report: everything is there, fits, and names from traces stay text."""

from __future__ import annotations

import re

import pytest
from rich.cells import cell_len
from sample import EVERY, straggling

from rankscope.analyzers.quantities import duration
from rankscope.reports.blocks import Bar, Bars, Part, Section
from rankscope.reports.names import visible
from rankscope.reports.renderers import glyphs
from rankscope.reports.renderers.terminal import in_ascii, render
from rankscope.reports.sections import sections

CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def titled(found: list[Section]) -> list[str]:
    return [section.title for section in found if section.id != "verdict"]


@pytest.mark.parametrize("name", sorted(EVERY))
@pytest.mark.parametrize("width", [40, 80, 160])
def test_no_line_is_wider_than_the_terminal(name: str, width: int) -> None:
    diagnosis = EVERY[name]()
    whole = {visible(entry.record) for entry in (*diagnosis.rules.skipped, *diagnosis.coverage)}  # to be copied whole
    lines = [line for line in render(diagnosis, width=width, colour=False).splitlines() if line not in whole]
    assert max(map(cell_len, lines)) <= width


@pytest.mark.parametrize("name", sorted(EVERY))
def test_without_colour_there_is_no_control_code(name: str) -> None:
    assert CONTROL.search(render(EVERY[name](), width=80, colour=False)) is None


def test_colour_changes_nothing_but_colour() -> None:
    plain = render(straggling(8, 6), width=100, colour=False)
    coloured = render(straggling(8, 6), width=100, colour=True)
    assert "\x1b[" in coloured
    text = re.sub(r"\x1b\[[0-9;]*m", "", coloured)
    ruled = re.sub(r"(?m)^─+\n", "", plain)
    assert [line.rstrip() for line in text.splitlines()] == ruled.splitlines()


def test_coloured_names_bring_no_codes_of_their_own() -> None:
    coloured = render(EVERY["hostile"](), width=100, colour=True)
    assert CONTROL.search(re.sub(r"\x1b\[[0-9;]*m", "", coloured)) is None
    assert "evil" in coloured


@pytest.mark.parametrize("name", sorted(EVERY))
def test_every_section_is_there_in_order(name: str) -> None:
    diagnosis = EVERY[name]()
    text = render(diagnosis, width=100, colour=False)
    places = [text.index(f"\n{title}\n") for title in titled(sections(diagnosis))]
    assert places == sorted(places) and len(places) >= 3


def test_verdict_then_findings_then_time() -> None:
    diagnosis = straggling(8, 6)
    lines = render(diagnosis, width=120, colour=False).splitlines()
    assert diagnosis.verdict in lines[2]
    assert lines.index("Findings") < lines.index("Where the time went") < lines.index("Coverage")


def test_a_terminal_without_unicode_gets_the_same_columns() -> None:
    text = render(straggling(8, 6), width=80, colour=False)
    plain = in_ascii(text)
    assert plain.isascii() and not text.isascii()
    assert [*map(len, plain.splitlines())] == [*map(len, text.splitlines())]
    families = next(line for line in plain.splitlines() if "# compute" in line).split()[::2]
    assert len(set(families)) == len(families) >= 6


def test_64_ranks_do_not_flood() -> None:
    many, few = (render(straggling(n, 20), width=100, colour=False) for n in (64, 8))
    assert len(many.splitlines()) <= len(few.splitlines())
    time = many[many.index("Where the time went") : many.index("Rank by step")]
    assert "rank 5 " in time and "63 others" in time and "rank 6 " not in time


def test_the_window_shown_is_the_mean_of_the_judged_rows() -> None:
    diagnosis = straggling(8, 6)
    rows = [r for r in diagnosis.attribution if r.rank == 3 and r.step in diagnosis.run.usable_steps]
    mean = sum(r.window_ns for r in rows) / len(rows)
    assert re.search(rf"rank 3 +{re.escape(duration(mean))}", render(diagnosis, width=100, colour=False))


def test_a_family_that_is_absent_has_no_column_and_no_zero() -> None:
    text = render(EVERY["cpu"](), width=100, colour=False)
    heading = next(line for line in text.splitlines() if "window" in line and "compute" in line)
    assert "idle" not in heading and "wait" in heading


def test_a_label_longer_than_the_terminal_leaves_room_for_its_bar() -> None:
    bar = Bar("rank 0 device " + "9" * 60, (Part("kernel", 100),), 100)
    lines = glyphs.bars(Bars("Time", (bar,)), 40)
    assert all(line.cell_len <= 40 for line in lines) and any("█" in line.plain for line in lines)
