from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankscope.analyzers.loading.container import pack, unpack
from rankscope.analyzers.trace.table import Table
from rankscope.analyzers.trace.tables import DeviceEvents, OtherEvents

NAMES = ["", "gemm", "naïve \u2028 kernel", "x" * 5000]


def tables() -> dict[type[Table], Table]:
    columns = {name: np.arange(5, dtype=column.dtype) for name, column in DeviceEvents.declared.items()}
    absent = np.array([True, False, True, True, False])
    return {DeviceEvents: DeviceEvents(columns, {"bytes": absent}), OtherEvents: OtherEvents.empty()}


def test_what_is_packed_comes_back_to_the_bit() -> None:
    packed = unpack(b"".join(pack(b"said", NAMES, tables())))
    assert packed.text == b"said" and packed.names == NAMES
    for kind, table in tables().items():
        for name, array in table.columns.items():
            again = packed.tables[kind].columns[name]
            assert again.dtype == array.dtype and again.tobytes() == array.tobytes()
    assert packed.tables[DeviceEvents].valid("bytes").tolist() == [True, False, True, True, False]


def test_columns_are_views_that_cannot_be_written_to() -> None:
    packed = unpack(b"".join(pack(b"", [], tables())))
    with pytest.raises(ValueError, match="read-only"):
        packed.tables[DeviceEvents].start_ns[0] = 1


WHOLE = b"".join(pack(b"said", ["a"], tables()))


@given(st.integers(0, len(WHOLE) - 1), st.integers(1, 255))
def test_a_changed_byte_is_noticed_or_does_not_matter(at: int, change: int) -> None:
    damaged = bytearray(WHOLE)
    damaged[at] ^= change
    try:
        packed = unpack(bytes(damaged))
    except ValueError:
        return
    assert packed.text == b"said"
    assert packed.tables[DeviceEvents].start_ns.tolist() == [0, 1, 2, 3, 4]


@given(st.integers(0, len(WHOLE) - 1))
def test_a_cut_container_is_refused(length: int) -> None:
    with pytest.raises(ValueError, match=r"short|damaged"):
        unpack(WHOLE[:length])
