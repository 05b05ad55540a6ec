"""The Markdown report: everything is there, and nothing out of a trace becomes markup, a mention or a link."""

from __future__ import annotations

import re

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token
from sample import EVERY, straggling

from rankscope.analyzers.quantities import duration
from rankscope.reports.renderers.markdown import code, escaped, fenced, render
from rankscope.reports.sections import sections

OURS = re.compile(r"</?(details|summary|sub)>")
FORGE_MOST = 65_536  # characters that a comment on a forge may have


def parsed(text: str) -> list[Token]:
    """All tokens, inner ones too, with tables as forges have them."""
    tokens = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text)
    return [inner for token in tokens for inner in (token, *(token.children or ()))]


def shown(text: str) -> str:
    return "".join(token.content for token in parsed(text) if token.type in ("text", "code_inline"))


@pytest.mark.parametrize("name", sorted(EVERY))
def test_every_section_and_finding_is_there(name: str) -> None:
    diagnosis = EVERY[name]()
    text = render(diagnosis)
    for section in sections(diagnosis):
        if section.id != "verdict":
            assert f"## {section.title}" in text or f"<summary>{section.title}</summary>" in text
    for finding in diagnosis.findings:
        assert f"`{finding.rule}`" in text and escaped(finding.advice) in text
    assert text.count("<details>") == text.count("</details>") == text.count("<summary>")


@pytest.mark.parametrize("name", sorted(EVERY))
def test_only_our_markup_is_markup(name: str) -> None:
    tokens = parsed(render(EVERY[name]()))
    html = "".join(t.content for t in tokens if t.type in ("html_block", "html_inline"))
    assert set(re.findall(r"<[^>]*>", html)) <= {
        "<details>",
        "</details>",
        "<summary>",
        "</summary>",
        "<sub>",
        "</sub>",
    }
    assert not {t.type for t in tokens} & {"image", "link_open", "s_open"}


@pytest.mark.parametrize("name", sorted(EVERY))
def test_rows_of_a_table_have_as_many_cells_as_its_head(name: str) -> None:
    widths: list[int] = []
    for token in parsed(render(EVERY[name]())):
        if token.type == "tr_open":
            widths.append(0)
        elif token.type in ("td_open", "th_open"):
            widths[-1] += 1
        elif token.type == "table_close":
            assert len(widths) > 1 and len(set(widths)) == 1
            widths = []


@pytest.mark.parametrize(
    "text",
    [
        "@everyone", "see #12 and !34", "a@b.example", "https://evil.example/x", "www.evil.example", "GH<!-- x -->",
        "![x](http://evil)", "[x](http://evil)", "<img src=x>", "a|b|c", "**bold** _it_ ~~gone~~ `code`", "$x^2$",
        "&lt;b&gt;", "# heading", "- item", "1. item", "12) item", "---", "-", "+ x", "0-3", "1.16 % of it",
        "> quote", "=====", "http://a@b#c", "line\none\ttwo",
    ],
)  # fmt: skip
def test_text_stays_text(text: str) -> None:
    tokens = parsed(escaped(text))
    assert {t.type for t in tokens} <= {"paragraph_open", "paragraph_close", "inline", "text"}
    told = "".join(t.content for t in tokens if t.type == "text")
    assert told.replace("\u200b", "") == " ".join(text.split(None)) or told.replace("\u200b", "") == text
    assert not re.search(r"@\w|[#!]\d|://|www\.", told)


@pytest.mark.parametrize("text", ["`", "a`b", "``x``", "`x", "a\\", "<b>", "![x](y)", "@me", "plain"])
def test_names_in_code_are_whole(text: str) -> None:
    (token,) = [t for t in parsed(code(text)) if t.type not in ("paragraph_open", "paragraph_close", "inline")]
    assert token.type == "code_inline" and token.content == text


def test_a_block_of_code_cannot_be_ended_from_inside() -> None:
    (token,) = parsed(fenced("```\n<b>\n````", "python"))
    assert token.type == "fence" and token.content == "```\n<b>\n````\n"


def test_hostile_names_are_shown_and_do_nothing() -> None:
    text = shown(render(EVERY["hostile"]()))
    assert "<script>" in text and "\x1b" not in text and "\u202e" not in text and "\\x1b" in text


def test_the_cost_is_the_reports() -> None:
    diagnosis = straggling(8, 6)
    text = render(diagnosis)
    assert f"cost a step **{duration(diagnosis.findings[0].cost_ns)}**" in text
    assert escaped(diagnosis.verdict.split(" (")[0].rstrip(".")) in text


def test_many_ranks_fit_in_a_comment() -> None:
    assert len(render(straggling(512, 40))) < FORGE_MOST
