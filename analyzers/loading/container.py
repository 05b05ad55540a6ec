"""Container: tables and texts as one run of bytes, a small header and then raw columns that can be mapped into memory.

Layout: magic, checksum and length of the header, header (msgpack), padding to 64 bytes, columns, each at a multiple of
64 bytes. Reading validates everything: a damaged container is a ValueError, never a wrong table. It never holds code.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
from isal.isal_zlib import crc32

from rankscope.analyzers.trace.table import Array, Bools, Table

MAGIC = b"rankscope\x00\x00\x01"
_PREFIX = struct.Struct(f"<{len(MAGIC)}sIQ")  # magic, checksum and length of the header
_ALIGN = 64
Buffer = bytes | memoryview


class _Header(msgspec.Struct):
    text: bytes
    names: list[str]
    tables: dict[
        str, dict[str, tuple[str, int, int]]
    ]  # table -> column or "?column" (its mask) -> dtype, offset, bytes
    payload: int
    checksum: int


@dataclass(frozen=True, slots=True)
class Packed:
    """What a container holds. Arrays are views of the buffer it was read from, read-only."""

    text: bytes
    names: list[str]
    tables: dict[type[Table], Table]


def pack(text: bytes, names: Sequence[str], tables: Mapping[type[Table], Table]) -> list[Buffer]:
    """The container in pieces, in order; the columns are not copied."""
    arrays: list[Buffer] = []
    described: dict[str, dict[str, tuple[str, int, int]]] = {}
    offset = checksum = 0
    for kind, table in tables.items():
        described[kind.__name__] = columns = {}
        for name, array in _arrays(table):
            raw = array.data.cast("B") if array.size else memoryview(b"")
            columns[name] = (array.dtype.str, offset, raw.nbytes)
            padding = bytes(-raw.nbytes % _ALIGN)
            arrays += [raw, padding]
            offset += raw.nbytes + len(padding)
            checksum = crc32(padding, crc32(raw, checksum))
    header = msgspec.msgpack.encode(_Header(text, list(names), described, offset, checksum))
    prefix = _PREFIX.pack(MAGIC, crc32(header), len(header))
    return [prefix, header, bytes(-(len(prefix) + len(header)) % _ALIGN), *arrays]


def unpack(raw: Buffer) -> Packed:
    """Read what `pack` wrote; ValueError when anything is not as it was written. Cost: one pass over the bytes."""
    buffer = memoryview(raw)
    if len(buffer) < _PREFIX.size:
        raise ValueError("too short")
    magic, checksum, length = _PREFIX.unpack_from(buffer)
    head = buffer[_PREFIX.size : _PREFIX.size + length]
    if magic != MAGIC or len(head) != length or crc32(head) != checksum:
        raise ValueError("header is damaged")
    header = msgspec.msgpack.decode(head, type=_Header)
    start = _PREFIX.size + length
    start += -start % _ALIGN
    payload = buffer[start:]
    if len(buffer) != start + header.payload or crc32(payload) != header.checksum:
        raise ValueError("columns are damaged")
    known = _known_tables()
    tables = {known[kind]: _table(known[kind], columns, payload) for kind, columns in header.tables.items()}
    return Packed(header.text, header.names, tables)


def _arrays(table: Table) -> Iterator[tuple[str, Array]]:
    yield from table.columns.items()
    for name, mask in table.masks.items():
        yield f"?{name}", mask


def _table(kind: type[Table], columns: dict[str, tuple[str, int, int]], payload: memoryview) -> Table:
    arrays: dict[str, Array] = {}
    masks: dict[str, Bools] = {}
    for name, (dtype, offset, length) in columns.items():
        array = np.frombuffer(payload[offset : offset + length], dtype=np.dtype(dtype))
        if name.startswith("?"):
            masks[name[1:]] = array.astype(np.bool_, copy=False)
        else:
            arrays[name] = array
    return kind(arrays, masks)


def _known_tables() -> dict[str, type[Table]]:
    return {kind.__name__: kind for kind in Table.__subclasses__()}
