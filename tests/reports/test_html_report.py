"""The page: whole, self-contained, small, and names from traces are never markup."""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser

import pytest
from sample import EVERY, HOSTILE, straggling

from rankscope.analyzers.quantities import duration, exact_ns
from rankscope.reports.buckets import BUCKETS
from rankscope.reports.renderers.html import render
from rankscope.reports.sections import sections

TAGS = frozenset(
    [
        "a",
        "article",
        "b",
        "body",
        "button",
        "code",
        "dd",
        "details",
        "div",
        "dl",
        "dt",
        "figcaption",
        "figure",
        "h1",
        "h2",
        "h3",
        "head",
        "header",
        "html",
        "li",
        "main",
        "meta",
        "nav",
        "p",
        "rect",
        "script",
        "section",
        "span",
        "strong",
        "style",
        "summary",
        "svg",
        "table",
        "tbody",
        "td",
        "text",
        "th",
        "thead",
        "title",
        "tr",
        "ul",
    ]
)
ATTRIBUTES = frozenset(
    [
        "aria-hidden",
        "aria-label",
        "aria-labelledby",
        "charset",
        "class",
        "content",
        "data-bucket",
        "data-v",
        "height",
        "hidden",
        "href",
        "http-equiv",
        "id",
        "lang",
        "name",
        "role",
        "rx",
        "scope",
        "tabindex",
        "title",
        "type",
        "width",
        "x",
        "y",
    ]
)


class Page(HTMLParser):
    """What a browser would see."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: dict[str, int] = {}
        self.attributes: set[str] = set()
        self.values: list[tuple[str, str]] = []
        self.stack: list[str] = []
        self.inside: dict[str, str] = {}
        self.text: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] = self.tags.get(tag, 0) + 1
        self.attributes |= {name for name, _ in attrs}
        self.values += [(name, value or "") for name, value in attrs]
        if tag not in ("meta", "link", "rect") or tag == "rect":
            self.stack.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.stack.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.stack and self.stack[-1] == tag, (tag, self.stack[-3:])
        self.stack.pop()

    def handle_data(self, data: str) -> None:
        if self.stack and self.stack[-1] in ("script", "style"):
            self.inside[self.stack[-1]] = data
        else:
            self.text.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data}")


@pytest.mark.parametrize("name", sorted(EVERY))
def test_the_page_is_well_formed_and_holds_only_our_elements(name: str) -> None:
    page = Page(render(EVERY[name]()))
    assert page.stack == []
    assert set(page.tags) <= TAGS
    assert page.attributes <= ATTRIBUTES
    assert page.tags["script"] == page.tags["style"] == page.tags["h1"] == 1


def test_hostile_names_are_text() -> None:
    text = render(EVERY["hostile"]())
    page = Page(text)
    assert set(page.tags) == set(Page(render(EVERY["straggler"]())).tags)
    assert "<script>alert" not in text and "<img" not in text and 'onmouseover="' not in text
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\ud800-\udfff]", text)
    shown = "".join(page.text)
    assert HOSTILE[0] in shown and "\\x1b[31mred" in shown and "abc\\u202egnirts" in shown
    text.encode()


def test_nothing_is_fetched() -> None:
    page = Page(render(straggling(8, 6)))
    assert [value for name, value in page.values if name in ("src", "srcset", "action", "data")] == []
    assert all(value.startswith("#") for name, value in page.values if name == "href")
    assert "url(" not in page.inside["style"] and "@import" not in page.inside["style"]
    assert "fetch(" not in page.inside["script"] and "innerHTML" not in page.inside["script"]


def test_the_policy_names_this_style_and_this_script_only() -> None:
    page = Page(render(straggling(8, 6)))
    policy = next(value for name, value in page.values if name == "content" and "default-src" in value)
    rules = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    for kind in ("style", "script"):
        digest = b64encode(sha256(page.inside[kind].encode()).digest()).decode()
        assert rules[f"{kind}-src"] == f"'sha256-{digest}'"
    assert rules["default-src"] == "'none'" and "http" not in policy and "unsafe" not in policy


@pytest.mark.parametrize("name", sorted(EVERY))
def test_every_section_is_there_and_linked(name: str) -> None:
    diagnosis = EVERY[name]()
    page = Page(render(diagnosis))
    ids = {value for key, value in page.values if key == "id"}
    links = [value[1:] for key, value in page.values if key == "href"]
    expected = [section.id for section in sections(diagnosis)]
    assert links[1:] == expected
    assert set(links) <= ids


def test_64_ranks_by_20_steps_stay_small() -> None:
    assert len(render(straggling(64, 20)).encode()) < 3_000_000


def test_hundreds_of_steps_and_ranks_stay_small() -> None:
    assert len(render(straggling(8, 2_000)).encode()) < 3_000_000
    assert len(render(straggling(512, 4)).encode()) < 6_000_000


def test_a_bar_says_each_bucket_exactly() -> None:
    diagnosis = straggling(8, 6)
    text = "".join(Page(render(diagnosis)).text)
    rows = [r for r in diagnosis.attribution if r.rank == 5 and r.step in diagnosis.run.usable_steps]
    told = 0
    for bucket in BUCKETS:
        mean = sum(bucket.ns(r) for r in rows) / len(rows)
        if mean:
            assert f"{bucket.label}: {duration(mean)}" in text and exact_ns(mean) in text
            told += 1
    assert told >= 8


def test_a_cell_of_the_heat_map_is_the_row() -> None:
    diagnosis = straggling(8, 6)
    text = "".join(Page(render(diagnosis)).text)
    for row in diagnosis.attribution:
        if isinstance(row.step, int):
            told = f"rank {row.rank}, step {row.step}: {duration(row.window_ns)}, {exact_ns(row.window_ns)}"
            assert told in text


def test_record_lines_can_be_copied() -> None:
    diagnosis = EVERY["straggler"]()
    text = render(diagnosis)
    for skipped in diagnosis.rules.skipped:
        assert f"<code>{skipped.record}</code><button" in text


def test_a_run_without_findings_shows_no_story() -> None:
    page = Page(render(EVERY["single"]()))
    assert "article" not in page.tags
    assert "None. 1 rule passed, 2 had no signal." in page.text
