"""Events of one category -> columns, without a Python object for what is not kept.

msgspec decodes a piece into one small struct per event; every number is a float, so that encoding the structs of one
category again as MessagePack gives records of one size, which numpy reads as they lie: 14 ns a value instead of 30.
A record of another size holds something rare (a collective's arguments, a null, another spelling): that is taken out.
"""

from __future__ import annotations

import struct
import sys
from decimal import Decimal
from typing import Any, Literal

import msgspec
import numpy as np
from msgspec import UNSET, UnsetType

from rankscope.analyzers.trace.readers import exact_time
from rankscope.analyzers.trace.readers.categories import COUNTS, TEXTS, Kind
from rankscope.analyzers.trace.readers.columns import MAX_NAMES, Batch, Collectives, Names
from rankscope.analyzers.trace.table import Bools, Ints
from rankscope.analyzers.trace.tables import DeviceAnnotations, DeviceEvents, Flows

NAN = float("nan")
FILE_ORDER = ("ph", "id", "name", "pid", "tid", "ts", "dur")
MANY = 64  # odd events in a group, from which on each is looked at
Field = tuple[str, Any, Any]
Floats = exact_time.Floats


class Surprise(ValueError):
    """The piece is valid but holds something these records cannot: the forgiving tier takes it."""


class Layout:
    """One category's struct, and where its numbers lie in a MessagePack record."""

    def __init__(self, category: str, kind: Kind, digits: bool) -> None:
        """`digits`: decode ts as Decimal, for files whose times do not fit a float64."""
        self.category, self.kind, self.digits = category, kind, digits
        self.args = self._args()
        self.event = self._event()
        self.keys = list(self._numbers())
        self.timed = "dur" in self.keys
        self.encode = msgspec.msgpack.Encoder().encode
        self.head = 0  # the first 8 bytes of a record
        self.record = self._record()

    def _args(self) -> Any:  # noqa: ANN401
        kind = self.kind
        types: dict[str, Any] = {"parent_id": float | None}
        fields: list[Field] = [(column, types.get(column, float), NAN) for column in kind.numbers]
        names = {column: keys[0] for column, keys in kind.numbers.items()}
        for column, keys in kind.numbers.items():
            fields += [(f"{column}_too", float | UnsetType, UNSET)] if keys[1:] else []
            names |= {f"{column}_too": keys[1]} if keys[1:] else {}
        if kind.shapes:
            fields.append(("shapes", msgspec.Raw, 0.0))
            names["shapes"] = "Input Dims"
        if kind.collectives:
            fields += [(column, str | UnsetType, UNSET) for column in TEXTS]
            fields += [(column, float | UnsetType, UNSET) for column in COUNTS]
            names |= {**TEXTS, **COUNTS}
        if not fields:
            return None
        return msgspec.defstruct("Args", fields, rename=names, gc=False)

    def _event(self) -> Any:  # noqa: ANN401
        kind = self.kind
        fields: list[Field] = []
        if kind.table is not None:
            phase = Literal["X"] if kind.phase == "X" else Literal["i"] if kind.phase == "i" else Literal["s", "f"]
            types = {"ph": phase, "name": str, "ts": Decimal if self.digits else float}
            named = {"name"} if "name_id" in kind.columns else set()
            kept = named | {"ph", "ts", *_plain(kind)}
            # in the file's order: the decoder looks for the field behind the last one first
            fields = [(key, types.get(key, float), msgspec.NODEFAULT) for key in FILE_ORDER if key in kept]
            if self.args is not None:
                fields.append(("args", self.args, msgspec.field(default_factory=self.args)))
        return msgspec.defstruct("Event", fields, gc=False, tag_field="cat", tag=self.category)

    def _numbers(self) -> list[str]:
        kind = self.kind
        if kind.table is None:
            return []
        named = ["name"] if "name_id" in kind.columns else []
        return ["ts", *_plain(kind), *named, *kind.numbers, *(["shapes"] if kind.shapes else [])]

    def _record(self) -> np.dtype[np.void]:
        """Where each number lies, found by encoding one event of known numbers."""
        known = {key: float(n + 1) for n, key in enumerate(self.keys)}
        event: dict[str, Any] = {key: known[key] for key in self.keys if key in self.event.__struct_fields__}
        if self.args is not None:
            event["args"] = self.args(**{key: known[key] for key in self.keys if key in self.args.__struct_fields__})
        if self.kind.table is not None:
            event["ph"] = self.kind.phase[0]
        text = self.encode(self.event(**event))
        self.head = int.from_bytes(text[:8], sys.byteorder)
        offsets = [text.index(b"\xcb" + struct.pack(">d", known[key])) + 1 for key in self.keys]
        return np.dtype(
            {"names": self.keys, "formats": [">f8"] * len(offsets), "offsets": offsets, "itemsize": len(text)}
        )

    # ---- one group of events -> columns

    def batch(self, group: list[Any], names: Names) -> Batch:
        """The group's rows; Surprise or OutOfRange where these records cannot hold them."""
        starts = self._starts(group) if self.digits else None
        self._name(group, names)
        packed = self.encode(group)
        size = self.record.itemsize
        head = 1 if len(group) < 16 else 3 if len(group) < 1 << 16 else 5
        rare = None
        if len(packed) != head + size * len(group):
            rare = self._take_rare(group, self._odd(group, packed, head), names)
            packed = self.encode(group)
            if len(packed) != head + size * len(group):
                raise Surprise
        records = np.frombuffer(packed, self.record, len(group), head)
        times = 2 if self.timed else 1
        numbers = np.empty((len(self.keys), len(group)))
        for row, key in enumerate(self.keys):
            numbers[row] = records[key]
        return self._columns(group, numbers[:times], numbers[times:], names, starts, rare)

    def _name(self, group: list[Any], names: Names) -> None:
        if self.kind.shapes:
            raw = names.raw
            for event in group:
                event.name = names[event.name]
                args = event.args
                if args.shapes != 0.0:
                    text = bytes(args.shapes)
                    args.shapes = raw[text] if text in raw else _shapes(text, names)
        elif "name" in self.keys:
            for event in group:
                event.name = names[event.name]

    def _starts(self, group: list[Any]) -> Ints:
        starts = [exact_time.from_number(event.ts) for event in group]
        if None in starts:
            raise exact_time.OutOfRange
        for event in group:
            event.ts = 0.0
        return np.array(starts, np.int64)

    def _columns(
        self, group: list[Any], times: Floats, ids: Floats, names: Names, starts: Ints | None, rare: Collectives | None
    ) -> Batch:
        kind = self.kind
        assert kind.table is not None
        at = exact_time.from_floats(times[0]) if starts is None else starts
        if len(times) > 1 and not (at / 1000 + times[1]).max() < exact_time.LIMIT_US:
            raise exact_time.OutOfRange
        columns: dict[str, Any] = {"start_ns" if len(times) > 1 else "at_ns": at}
        if len(times) > 1:
            columns["dur_ns"] = exact_time.from_floats(times[1], exact_time.FINE_US)
        absent = np.isnan(ids)
        ids[absent] = 0.0
        if np.abs(ids).max(initial=0.0) >= exact_time.WHOLE_US:
            raise exact_time.OutOfRange
        valid: dict[str, Bools] = {}
        whole = ids.astype(np.int64)
        for row, key in enumerate(self.keys[len(times) :]):
            column = _COLUMN.get(key, key)
            columns[column] = whole[row]
            if absent[row].any():
                valid[column] = ~absent[row]
        if "cat_id" in kind.columns:
            columns["cat_id"] = np.full(len(group), names[self.category], np.int32)
        if kind.table is Flows:
            columns["begins"] = np.fromiter([event.ph == "s" for event in group], np.bool_, len(group))
        if kind.table in (DeviceEvents, DeviceAnnotations):
            _place(columns, valid)
        if kind.table is DeviceEvents and "bytes" not in columns:
            none = np.zeros(len(group), np.bool_)
            valid |= {"bytes": none, "from_device": none, "to_device": none}
        return Batch(kind.table, columns, valid, rare)

    # ---- what is rare

    def _odd(self, group: list[Any], packed: bytes, head: int) -> list[int]:
        """Which events have a record of another size: those behind which records no longer lie where they should."""
        size, odd, row, at = self.record.itemsize, list[int](), 0, head
        while len(odd) <= MANY:
            rows = min(len(group) - row, (len(packed) - at - 8) // size + 1)
            heads = np.ndarray(max(rows, 0), np.uint64, packed, at, (size,)) == self.head
            right = rows if heads.all() else int(heads.argmin())
            if right == len(group) - row and at + right * size == len(packed):
                return odd
            if right <= 0:
                raise Surprise
            odd.append(row + right - 1)
            at += (right - 1) * size + len(self.encode(group[odd[-1]]))
            row += right
            if row == len(group):
                return odd
        return list(range(len(group)))

    def _take_rare(self, group: list[Any], odd: list[int], names: Names) -> Collectives | None:
        """Take other spellings, nulls and collectives' arguments out of the odd events."""
        if self.args is None:
            raise Surprise
        spellings = [column for column, keys in self.kind.numbers.items() if keys[1:]]
        keys = (*TEXTS, *COUNTS) if self.kind.collectives else ()
        found = Collectives(self.kind.table is DeviceEvents)
        for row in odd:
            args = group[row].args
            for column in spellings:
                other = getattr(args, f"{column}_too")
                if other is not UNSET:
                    if np.isnan(getattr(args, column)):
                        setattr(args, column, other)
                    setattr(args, f"{column}_too", UNSET)
            if "parent_id" in self.kind.numbers and args.parent_id is None:
                args.parent_id = NAN
            values = [getattr(args, key) for key in keys]
            if any(value is not UNSET for value in values):
                found.rows.append(row)
                for key, value in zip(keys, values, strict=True):
                    found.values[key].append(_argument(key, value, names))
                    setattr(args, key, UNSET)
        return found if found.rows else None


def _plain(kind: Kind) -> list[str]:
    """Numbers beside `ts` at the top of an event."""
    if kind.table is Flows:
        return ["id", "pid", "tid"]
    return [] if kind.phase == "i" else ["dur", "pid", "tid"]


_COLUMN = {"name": "name_id", "shapes": "shapes_id", "id": "flow"}


def _place(columns: dict[str, Any], valid: dict[str, Bools]) -> None:
    """Device events without a `device` lie on their pid's, without a `stream` on their tid's."""
    for column, instead in (("device", "pid"), ("stream", "tid")):
        mask = valid.pop(column, None)
        if mask is not None:
            columns[column] = np.where(mask, columns[column], columns[instead])


def _argument(key: str, value: str | float | UnsetType, names: Names) -> float:
    if isinstance(value, str):
        return names.add(value)
    if isinstance(value, float) and abs(value) >= exact_time.WHOLE_US:
        raise exact_time.OutOfRange
    return value if isinstance(value, float) else 0.0 if key in TEXTS else NAN


def _shapes(text: bytes, names: Names) -> float:
    """The position of `Input Dims` in one layout, whatever the file's."""
    try:
        found = names.add(msgspec.json.format(text, indent=0).decode())
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise Surprise from None
    if len(text) <= names.room and len(names.raw) < MAX_NAMES:
        names.room -= len(text)
        names.raw[text] = found
    return found
