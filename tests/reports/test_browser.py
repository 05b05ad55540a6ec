"""The page in a real browser: no error, no alert, no overflow; skipped with a reason where there is no chromium."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from html import escape
from pathlib import Path

import pytest
from browser import CHROMIUM, QUIET
from sample import EVERY

from rankscope.analyzers.findings import Diagnosis, Evidence
from rankscope.reports.renderers.html import render

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on PATH (set CHROMIUM to its path)")


def browse(page: Path, *options: str) -> tuple[str, list[str]]:
    """The document after its script has run, and what it wrote to the console."""
    assert CHROMIUM is not None
    profile = f"--user-data-dir={page.parent / 'profile'}"
    done = subprocess.run(
        [CHROMIUM, *QUIET, profile, *options, "--virtual-time-budget=3000", "--dump-dom", page.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return done.stdout, re.findall(r".*:CONSOLE.*", done.stderr)


def opened(
    tmp_path: Path, name: str, *options: str, probe: str = "", diagnosis: Diagnosis | None = None
) -> tuple[str, list[str]]:
    page = tmp_path / f"{name}.html"
    text = render(diagnosis or EVERY[name]())
    if probe:  # a second script needs a page without the policy
        text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", text)
        text = text.replace("</body>", f"<script>{probe}</script></body>")
    page.write_text(text, encoding="utf-8")
    return browse(page, *options)


@pytest.mark.parametrize("name", ["straggler", "many", "cpu", "empty", "hostile"])
def test_the_page_runs_without_a_word_on_the_console(tmp_path: Path, name: str) -> None:
    document, console = opened(tmp_path, name)
    assert console == []
    assert '<button type="button" id="theme" aria-label' in document, "the script did not run"
    assert 'class="tip"' in document


def test_an_error_would_be_seen(tmp_path: Path) -> None:
    _, console = opened(tmp_path, "single", probe="undefined_name();")
    assert len(console) == 1 and "undefined_name" in console[0]


def test_the_policy_stops_a_script_that_is_not_ours(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    text = render(EVERY["single"]()).replace("</body>", "<script>document.title = 'owned'</script></body>")
    page.write_text(text, encoding="utf-8")
    document, console = browse(page)
    assert "<title>owned</title>" not in document
    assert len(console) == 1 and "Content Security Policy" in console[0]


WIDTHS = (390, 1024, 1440)


@pytest.mark.parametrize("name", ["straggler", "many", "hostile"])
def test_nothing_is_wider_than_a_phone_or_a_desktop(tmp_path: Path, name: str) -> None:
    inner = escape(re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", render(EVERY[name]())), quote=True)
    frames = "".join(f'<iframe width="{width}" height="800" srcdoc="{inner}"></iframe>' for width in WIDTHS)
    script = (
        "onload = () => { document.title = [...document.querySelectorAll('iframe')]"
        ".map(f => f.contentDocument.documentElement).map(d => d.scrollWidth - d.clientWidth).join(' '); };"
    )
    page = tmp_path / "frames.html"
    page.write_text(f"<!doctype html><title></title><script>{script}</script>{frames}", encoding="utf-8")
    document, console = browse(page, "--window-size=1600,900")
    assert console == []
    found = re.search(r"<title>([-\d ]+)</title>", document)
    assert found is not None and found[1].split() == ["0"] * len(WIDTHS)


def test_a_sentence_among_the_evidence_hides_no_other_value(tmp_path: Path) -> None:
    whole = EVERY["straggler"]()
    told = [Evidence("ended", "exception: RuntimeError: connection closed by peer [127.0.0.1]", "text")]
    finding = replace(whole.findings[0], evidence=[*told, *whole.findings[0].evidence])
    probe = (
        "const t = document.querySelector('#findings table').parentElement;"
        "document.title = t.textContent.includes('closed by peer') + ' ' + (t.scrollWidth - t.clientWidth);"
    )
    document, _ = opened(
        tmp_path, "straggler", "--window-size=1440,900", probe=probe, diagnosis=replace(whole, findings=[finding])
    )
    assert "<title>true 0</title>" in document


def test_tables_sort_by_the_exact_value(tmp_path: Path) -> None:
    probe = (
        "const t = document.querySelector('#waits table'); const b = t.tHead.rows[0].cells[2].querySelector('button');"
        "b.click(); const down = t.tBodies[0].rows[0].cells[2].dataset.v; b.click();"
        "document.title = [down, t.tBodies[0].rows[0].cells[2].dataset.v].join(' ');"
    )
    document, _ = opened(tmp_path, "straggler", probe=probe)
    waited = EVERY["straggler"]().collectives.waited_ns
    assert f"<title>{max(waited.values())} 0</title>" in document
