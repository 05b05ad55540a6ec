"""The matrix of `nvidia-smi topo -m`: how each GPU and NIC of a host reaches each other.

Cells are X, NV# (that many NVLinks), PIX, PXB, PHB, NODE or SYS, from near to far. Pasted text has spaces for tabs, so that
cells are taken by their words: the columns after the devices (affinities) may be of any form.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

_ANSI: Final = re.compile(r"\x1b\[[\d;]{0,16}[A-Za-z]")
_DEVICE: Final = re.compile(r"^(GPU\d{1,4}|NIC\d{1,4}|(?:mlx|bnxt|irdma|rdma|hfi|efa)\w{0,40})$")
_CELL: Final = re.compile(r"^(X|NV\d{1,3}|PIX|PXB|PHB|NODE|SYS|PCI|SOC)$")
_MOST: Final = 256  # devices of one host


@dataclass(frozen=True, slots=True)
class Matrix:
    """Paths by pair of devices, each pair in both orders, as printed; a row that is cut is counted and left out."""

    devices: tuple[str, ...]
    paths: dict[tuple[str, str], str]
    cut_rows: int


def heads(line: str) -> tuple[str, ...]:
    """The devices that a header line names; empty if it is none."""
    names: list[str] = []
    for word in _ANSI.sub("", line).split()[:_MOST]:
        if not _DEVICE.match(word):
            break
        names.append(word)
    return tuple(names) if names and names[0] == "GPU0" else ()


def read(lines: Iterable[str]) -> Matrix:
    """The first matrix among the lines."""
    devices: tuple[str, ...] = ()
    paths: dict[tuple[str, str], str] = {}
    cut = 0
    for line in lines:
        words = _ANSI.sub("", line).split()
        if not devices:
            devices = heads(line)
        elif words and words[0] == "Legend:":
            break
        elif words and words[0] in devices:
            cells = words[1 : len(devices) + 1]
            if len(cells) < len(devices) or not all(map(_CELL.match, cells)):
                cut += 1
                continue
            paths |= {(words[0], other): cell for other, cell in zip(devices, cells, strict=True)}
    return Matrix(devices, paths, cut)


def between_gpus(matrix: Matrix) -> dict[str, int]:
    """How many pairs of GPUs are joined by which path; a pair counts once."""
    found: dict[str, int] = {}
    for (one, other), cell in matrix.paths.items():
        if one < other and one.startswith("GPU") and other.startswith("GPU"):
            found[cell] = found.get(cell, 0) + 1
    return found
