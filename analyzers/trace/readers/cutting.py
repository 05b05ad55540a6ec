"""A window on the text of a file that moves from event boundary to event boundary; the text is never whole in memory.

A cut is only a guess: text that looks like the end of one event and the begin of the next. Proof is in decoding: if a
piece begins at a true boundary and `[piece]` is valid JSON, its end is a true boundary too. A false cut can fail, never
mis-split.
"""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

from rankscope.analyzers.errors import UnreadableTrace
from rankscope.analyzers.trace.readers.opening import Text

PIECE = 1 << 20
LONGEST = 56 << 20  # bytes of one event, of the head, or of the tail
SMALL = 1 << 15  # bytes that are not worth halving
KINETO = b"},\n  {"
BETWEEN = re.compile(rb"\}\s{0,64},\s{0,64}\{")
KEY = b'"traceEvents"'
OPENS = re.compile(rb"\s{0,64}:\s{0,64}\[")
SPACE = re.compile(rb"\s*")
MARGIN = 256  # bytes behind the key in which its `[` must be
MAX_TRIES = 64  # places where "traceEvents" may be a key of something else, or in a text
BOM = b"\xef\xbb\xbf"


class Window:
    """`buffer[begin:end]` is text that is not used up; what lies before `begin` is free to be written over."""

    def __init__(self, text: Text, piece: int | None = None) -> None:
        """`piece`: bytes to read at a time."""
        self.text = text
        self.piece = piece or PIECE
        self.buffer = bytearray(2 * self.piece)
        self.begin = self.end = 1
        self.looked = 1  # no cut is to be looked for before this
        self.false = 1  # no true cut lies before this
        self.cut = 0  # the comma behind the current piece
        self.separator, self.comma = KINETO, 1
        self.ended = False

    def __len__(self) -> int:
        return self.end - self.begin

    def rest(self) -> bytes:
        """The text that is not used up."""
        return bytes(self.buffer[self.begin : self.end])

    def fill(self) -> bool:
        """Read up to one more piece; false at the end of the file."""
        if self.ended:
            return False
        kept = len(self)
        if self.begin > 1:
            self.buffer[1 : 1 + kept] = self.buffer[self.begin : self.end]
            self.looked -= self.begin - 1
            self.false -= self.begin - 1
            self.begin, self.end = 1, 1 + kept
        if self.end + self.piece > len(self.buffer):
            larger = bytearray(min(2 * len(self.buffer), max(LONGEST, self.end) + 2 * self.piece))
            larger[: self.end] = self.buffer[: self.end]
            self.buffer = larger
        with memoryview(self.buffer) as view:
            got = self.text.readinto(view[self.end : self.end + self.piece])
        self.end += got
        self.ended = got == 0
        return not self.ended

    def next(self) -> memoryview | None:
        """`[event, ..., event]` up to the last cut in sight; None when no cut is left: the rest is the array's end."""
        while True:
            at = self.buffer.rfind(self.separator, max(self.begin, self.looked - len(self.separator) + 1), self.end)
            if at >= 0:
                self.cut = at + self.comma
            elif len(self) > 4 * self.piece:
                self.cut = self._any_cut()
            else:
                self.cut = 0
            self.looked = self.end
            if self.cut > self.begin:
                return self._piece()
            if len(self) > LONGEST or not self.fill():
                return None

    def _piece(self) -> memoryview:
        """The text up to the cut, its surrounding commas turned into brackets: no byte is copied."""
        self.buffer[self.begin - 1], self.buffer[self.cut] = ord("["), ord("]")
        return memoryview(self.buffer)[self.begin - 1 : self.cut + 1]

    def halve(self) -> memoryview | None:
        """The first half of the piece, the rest of which comes next; None where it is small already.

        Never ends at a cut that was found to be false, or the two would take turns for ever.
        """
        middle = (self.begin + self.cut) // 2
        at = self.buffer.rfind(self.separator, max(self.begin, self.false - len(self.separator) + 1), middle)
        if at < 0 or self.cut - self.begin < SMALL:
            return None
        self.buffer[self.cut] = ord(",")
        self.cut = at + self.comma
        self.looked = self.begin
        return self._piece()

    def _any_cut(self) -> int:
        """The last cut in any layout, in what was not looked at yet; from here on this is the layout to look for."""
        found = 0
        for match in BETWEEN.finditer(self.buffer, max(self.begin, self.looked - 130), self.end):
            if match.end() <= self.looked:
                continue
            self.separator, self.comma = match[0], match[0].index(b",")
            found = match.start() + self.comma
        return found

    def advance(self) -> None:
        """The piece is used up."""
        self.begin = self.cut + 1

    def piece_text(self) -> bytes:
        """The piece without its brackets, for a reader that takes it apart; the comma behind it comes back."""
        self.buffer[self.cut] = ord(",")
        return bytes(self.buffer[self.begin : self.cut])

    def keep(self, used: int) -> None:
        """Only `used` bytes of the piece are used up: the cut was false, the next lies behind it.

        Text that stays is looked at again only when it has doubled: hostile text costs no more than a few times its length.
        """
        if used == self.cut - self.begin:
            return self.advance()
        self.begin += used
        self.looked = self.false = self.cut - self.comma + len(self.separator)
        if used == 0 and self.buffer.find(self.separator, self.looked, self.end) < 0:
            goal = min(2 * len(self), LONGEST)
            while len(self) < goal and self.fill():
                pass

    def drop(self) -> None:
        """Give up the event at the front, longer than any may be, and go on behind the next cut, wherever it is."""
        while True:
            match = BETWEEN.search(self.buffer, self.begin + 1, self.end)
            if match:
                self.begin = self.looked = self.buffer.index(b",", match.start()) + 1
                return
            self.begin = self.looked = max(self.begin, self.end - 130)
            if not self.fill():
                self.begin = self.looked = self.end
                return


def enter(window: Window) -> tuple[dict[str, Any], bool]:
    """Move the window to the first event.

    Returns the keys before `traceEvents`, and whether the file is a bare list; UnreadableTrace where neither is.
    """
    window.fill()
    if window.buffer.startswith(BOM, window.begin):
        window.begin += len(BOM)
    start = SPACE.match(window.buffer, window.begin, window.end).end()  # type: ignore[union-attr]
    if window.buffer.startswith(b"[", start):
        window.begin = start + 1
        _entered(window)
        return {}, True
    at, tries = window.begin, 0
    while tries < MAX_TRIES:
        at = window.buffer.find(KEY, at, window.end)
        opens = OPENS.match(window.buffer, at + len(KEY), window.end) if at >= 0 else None
        if at < 0 or (opens is None and window.end - at < MARGIN):
            again = at if at >= 0 else max(window.begin, window.end - len(KEY))
            behind = again - window.begin
            if len(window) > LONGEST or not window.fill():
                break
            at = window.begin + behind
            continue
        if opens is not None:
            tries += 1
            found = _object(bytes(window.buffer[window.begin : opens.end()]) + b"]}")
            if found is not None and found.get("traceEvents") == []:
                window.begin = opens.end()
                _entered(window)
                return found, False
        at += len(KEY)
    raise UnreadableTrace(window.text.path, "has no traceEvents: not a profiler trace")


def _entered(window: Window) -> None:
    window.looked = window.begin
    if len(window) < window.piece:
        window.fill()
    learn_separator(window)


def learn_separator(window: Window) -> None:
    """The text between the first two events, which Kineto, json.dump and minifiers lay out each in their own way."""
    text = bytes(window.buffer[window.begin : window.begin + window.piece]).decode("utf-8", "replace")
    try:
        _, end = json.JSONDecoder(strict=False).raw_decode(text, len(text) - len(text.lstrip()))
    except (ValueError, RecursionError):
        return
    match = re.compile(r"\s{0,64},\s{0,64}\{").match(text, end)
    closing = re.search(r"\s{0,64}\}$", text[max(0, end - 70) : end])
    if match and closing:
        between = (closing[0] + match[0]).encode()
        window.separator, window.comma = between, len(closing[0])
        window.comma += match[0].index(",")


def _object(text: bytes) -> dict[str, Any] | None:
    """A JSON object, also with NaN and control characters in it."""
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        try:
            found = json.loads(text.decode("utf-8", "replace"), strict=False)
        except (ValueError, RecursionError):
            return None
    return found if isinstance(found, dict) else None


def leave(window: Window, *, bare: bool) -> dict[str, Any] | None:
    """The keys behind the array; the window lies on its `]`. None where the file's end is missing or damaged."""
    while len(window) < LONGEST and window.fill():
        pass
    rest = window.rest()[1:].strip()
    if bare:
        return None if rest else {}
    return keys_behind(rest)


def keys_behind(rest: bytes) -> dict[str, Any] | None:
    """The keys in the text behind the array's `]`, to the object's end; None where that is damaged."""
    return _object(b'{"traceEvents": []' + rest)
