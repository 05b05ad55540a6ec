"""Messages of NCCL wherever they stand in a line: after a task's number or a time, or in the middle of another's line."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_MESSAGE: Final = re.compile(
    r":(\d{1,10}):(\d{1,10}) (?:\[(\d{1,4})\] )?(?:[\w./-]{1,80}:\d{1,6} )?NCCL (INFO|WARN|CALL) "
)
_HOST: Final = re.compile(r"[\w.-]{1,128}$")
_BEFORE: Final = re.compile(r"(?:\s{0,8}\d{1,6}:\s{1,8})?(?:\[[^\]]{1,40}\]\s?)?\s{0,8}")  # a task's number, a time


@dataclass(frozen=True, slots=True)
class Message:
    """One message of NCCL in a line; `start` is where it begins, its process before the text."""

    start: int
    whole_line: bool
    host: str
    pid: int
    tid: int
    device: int | None
    level: str
    text: str


def messages(line: str) -> list[Message]:
    """All messages in a line: one where no other process wrote into it."""
    if "NCCL " not in line:
        return []
    found = list(_MESSAGE.finditer(line))
    if not found:
        return []
    begins = [_begin(line, message.start()) for message in found]
    ends = [*(start for start, _ in begins[1:]), len(line)]
    return [
        Message(
            start,
            whole and len(found) == 1,
            line[start : message.start()],
            int(message[1]),
            int(message[2]),
            None if message[3] is None else int(message[3]),
            message[4],
            line[message.end() : end],
        )
        for message, (start, whole), end in zip(found, begins, ends, strict=True)
    ]


def _begin(line: str, colon: int) -> tuple[int, bool]:
    """Where the host's name begins that ends at a colon, and whether only a task's number or a time stands before it.

    Of a figure and a name that ran into each other (`-1node7`) the name begins with its first letter. A word
    that ran into a name cannot be told from it.
    """
    run = _HOST.search(line, max(0, colon - 128), colon)
    if run is None:
        return colon, False
    if _BEFORE.fullmatch(line, 0, run.start()):
        return run.start(), True
    letter = next((at for at in range(run.start(), colon) if line[at].isalpha()), run.start())
    return letter, False
