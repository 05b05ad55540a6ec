"""The only way from text to HTML: everything that is not a tag of ours is escaped."""

from __future__ import annotations

from html import escape as _escape

from rankscope.reports.names import visible

_VOID = frozenset({"rect", "meta", "line", "link"})


def escaped(text: str) -> str:
    """Text as content or as a quoted attribute; harmful characters are spelled out first."""
    return _escape(visible(text), quote=True)


def tag(name: str, content: str = "", /, **attributes: str | int | bool | None) -> str:
    """An element around `content`, which is HTML. `class_` is class, `data_v` data-v; None and False are left out."""
    text = "".join(
        f" {key.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{escaped(str(value))}"')
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    if name in _VOID and not content:
        return f"<{name}{text}>" if name in ("meta", "link") else f"<{name}{text}/>"
    return f"<{name}{text}>{content}</{name}>"
