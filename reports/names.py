"""Names out of traces, made harmless: what a character could do to a terminal or a reader's eye is spelled out."""

from __future__ import annotations

import unicodedata

# Control, format (bidi, zero-width), surrogate, private, unassigned, line and paragraph separators.
_HARMFUL = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_MOST_MARKS = 2  # combining marks in a row that a real script needs


def visible(text: str) -> str:
    """`text` with its control, bidi, invisible and surrogate characters escaped (`\\x1b`, `\\u202e`), on one line."""
    if text.isascii() and text.isprintable():
        return text
    shown: list[str] = []
    marks = 0
    for character in text:
        category = unicodedata.category(character)
        marks = marks + 1 if category in ("Mn", "Me") else 0
        if character in "\n\t":
            shown.append(" ")
        elif category in _HARMFUL or marks > _MOST_MARKS:
            shown.append(_escape(ord(character)))
        else:
            shown.append(character)
    return "".join(shown)


def _escape(code: int) -> str:
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def shortened(text: str, width: int) -> str:
    """`text` in at most `width` characters: the middle goes, since kernel names differ at both ends."""
    if len(text) <= width:
        return text
    if width <= 1:
        return "…"[:width]
    tail = (width - 1) // 3
    return f"{text[: width - 1 - tail]}…{text[len(text) - tail :] if tail else ''}"
