"""The report as one HTML file that needs nothing else: no network, no fonts; style and script are inside."""

from __future__ import annotations

from base64 import b64encode
from functools import cache
from hashlib import sha256
from importlib.resources import files

from rankscope.analyzers.findings import Diagnosis
from rankscope.reports.blocks import Section
from rankscope.reports.names import shortened
from rankscope.reports.renderers.html_blocks import html_all
from rankscope.reports.renderers.markup import escaped, tag
from rankscope.reports.sections import sections

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<meta name="generator" content="rankscope">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<a class="skip" href="#main">Skip to the report</a>
<header class="top"><span class="brand">rank<b>scope</b></span><span class="path" title="{path}">{name}</span>\
<button type="button" id="theme" hidden aria-label="Switch between light and dark">Light / dark</button></header>
<div class="page">
<nav aria-label="Sections"><ul>{links}</ul></nav>
<main id="main">
{body}
</main>
</div>
<script>{script}</script>
</body>
</html>
"""


def render(diagnosis: Diagnosis) -> str:
    """The whole page. Names out of traces are escaped; the policy lets only this page's own style and script run."""
    built = sections(diagnosis)
    style, script = _asset("page.css"), _asset("page.js")
    name = shortened(diagnosis.run.id or diagnosis.run.path, 80)
    return _PAGE.format(
        policy=escaped(_policy(style, script)),
        title=escaped(f"{name} - rankscope"),
        style=style,
        path=escaped(diagnosis.run.path[:1000]),
        name=escaped(name),
        links="".join(tag("li", tag("a", escaped(section.title), href=f"#{section.id}")) for section in built),
        body="\n".join(map(_section, built)),
        script=script,
    )


def _section(section: Section) -> str:
    lead = tag("p", escaped(section.lead), class_="lead") if section.lead else ""
    heading = tag("h1" if section.id == "verdict" else "h2", escaped(section.title), id=f"{section.id}-title")
    inside = lead + html_all(section.blocks)
    folded = tag("details", tag("summary", heading) + inside, class_="section")
    content = folded if section.detail else heading + inside
    return tag("section", content, id=section.id, aria_labelledby=f"{section.id}-title")


@cache
def _asset(name: str) -> str:
    return files("rankscope.reports.renderers").joinpath(name).read_text(encoding="utf-8")


def _policy(style: str, script: str) -> str:
    return (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"
