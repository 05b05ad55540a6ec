"""Plain values out of a pickle that nobody vouches for: containers, texts and numbers; anything that would call code is
refused before it is read.

PyTorch writes flight-recorder dumps as pickles. A pickle is a program: this one may only build plain values, and it is
looked through, opcode by opcode, before it runs (about a second for a million opcodes).
"""

from __future__ import annotations

import io
import os
import pickle
import pickletools
from typing import Any, Final, NoReturn

from rankscope.analyzers.errors import UnreadableTrace

MOST_BYTES: Final = 512 << 20
MOST_OPCODES: Final = 20_000_000
_NAMES: Final = (
    "PROTO FRAME STOP MARK POP POP_MARK DUP NONE NEWTRUE NEWFALSE INT BININT BININT1 BININT2 LONG LONG1 LONG4 "
    "FLOAT BINFLOAT STRING BINSTRING SHORT_BINSTRING UNICODE BINUNICODE BINUNICODE8 SHORT_BINUNICODE BINBYTES "
    "SHORT_BINBYTES BINBYTES8 EMPTY_LIST LIST APPEND APPENDS EMPTY_TUPLE TUPLE TUPLE1 TUPLE2 TUPLE3 EMPTY_DICT "
    "DICT SETITEM SETITEMS EMPTY_SET ADDITEMS FROZENSET PUT BINPUT LONG_BINPUT GET BINGET LONG_BINGET MEMOIZE"
)
PLAIN: Final = frozenset(_NAMES.split())


def plain(path: str) -> Any:  # noqa: ANN401 - what the file holds
    """What the pickle holds. UnreadableTrace for what is too large, damaged, or more than plain values."""
    if os.path.getsize(path) > MOST_BYTES:
        raise UnreadableTrace(path, f"is a pickle of more than {MOST_BYTES >> 20} MiB")
    with open(path, "rb") as file:
        raw = file.read(MOST_BYTES)
    try:
        for number, (opcode, _, _) in enumerate(pickletools.genops(raw)):
            if opcode.name not in PLAIN:
                raise UnreadableTrace(path, f"is a pickle with more than plain values in it ({opcode.name})")
            if number > MOST_OPCODES:
                raise UnreadableTrace(path, "is a pickle of too many parts")
        return Plain(io.BytesIO(raw)).load()
    except (
        ValueError,
        TypeError,
        KeyError,
        IndexError,
        AttributeError,
        EOFError,
        OverflowError,
        pickle.UnpicklingError,
    ):
        raise UnreadableTrace(path, "is a damaged pickle") from None


class Plain(pickle.Unpickler):
    """Finds no class: a second lock behind the look through the opcodes."""

    def find_class(self, module: str, name: str, /) -> NoReturn:
        """Refuse."""
        raise pickle.UnpicklingError(f"{module}.{name}")
