"""NCCL's topology (NCCL_TOPO_DUMP_FILE) and graphs (NCCL_GRAPH_DUMP_FILE): XML, read without documents' own definitions.

A topology needs no DOCTYPE, so that a file with one is refused: no entity is ever defined, let alone expanded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from xml.parsers import expat

from rankscope.analyzers.nccl.text import Unreadable

_DEEPEST: Final = 64
_MOST: Final = 100_000  # elements
_GPU_CLASSES: Final = ("0x0302", "0x0300", "0x0380")
_NIC_CLASSES: Final = ("0x0200", "0x0207")


@dataclass(frozen=True, slots=True)
class Topology:
    """What stands in one host, as NCCL sees it."""

    cpus: int
    gpus: int
    nics: int
    nvlinks: tuple[int, ...]  # of each GPU that says, links in all (NVLink or xGMI)
    networks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Graph:
    """One search result: how many channels at which bandwidth a channel, and the worst path within and between hosts."""

    id: str
    channels: int | None
    within_gb_per_s: float | None
    between_gb_per_s: float | None
    within_path: str
    between_path: str


@dataclass(frozen=True, slots=True)
class Layout:
    """One file: a topology, or graphs."""

    topology: Topology | None
    graphs: tuple[Graph, ...]


def read(content: bytes, path: str) -> Layout:
    """The file's content. Raises Unreadable."""
    reading = _Reading(path)
    parser = expat.ParserCreate()
    parser.StartElementHandler = reading.begin
    parser.EndElementHandler = reading.end
    parser.StartDoctypeDeclHandler = reading.refuse
    try:
        parser.Parse(_without_comments(content), True)
    except expat.ExpatError as error:
        raise Unreadable(f"{path}: not whole XML ({error})") from error
    return reading.result()


def _without_comments(content: bytes) -> bytes:
    """Comments are taken out first: NCCL reads, and RCCL ships, files whose comments hold `--`, which XML forbids."""
    pieces = []
    at = 0
    while (begin := content.find(b"<!--", at)) >= 0 and (end := content.find(b"-->", begin + 4)) >= 0:
        pieces.append(content[at:begin])
        at = end + 3
    return b"".join([*pieces, content[at:]]).lstrip()


class _Reading:
    def __init__(self, path: str) -> None:
        self.path = path
        self.root = ""
        self.depth = self.elements = self.cpus = 0
        self.pci: dict[str, str] = {}
        self.gpus: list[int] = []
        self.networks: list[str] = []
        self.graphs: list[Graph] = []

    def refuse(self, *_: object) -> None:
        raise Unreadable(f"{self.path}: a DOCTYPE, which neither a topology nor a graph has")

    def begin(self, name: str, attributes: Mapping[str, str]) -> None:
        self.depth += 1
        self.elements += 1
        if self.depth > _DEEPEST or self.elements > _MOST:
            raise Unreadable(f"{self.path}: deeper or larger than a topology can be")
        self.root = self.root or name
        if name == "cpu":
            self.cpus += 1
        elif name == "pci":
            self.pci[attributes.get("busid", str(self.elements))] = attributes.get("class", "")
        elif name == "gpu" and self.root == "system":
            self.gpus.append(0)
        elif name in ("nvlink", "xgmi") and self.gpus:
            self.gpus[-1] += int(_number(attributes.get("count")) or 0)
        elif name == "net" and self.root == "system":
            self.networks.append(attributes.get("name", "")[:80])
        elif name == "graph":
            self.graphs.append(_graph(attributes))

    def end(self, _: str) -> None:
        self.depth -= 1

    def result(self) -> Layout:
        if self.root not in ("system", "graphs"):
            raise Unreadable(f"{self.path}: begins with <{self.root[:40]}>, neither a topology nor graphs of NCCL")
        if self.root == "graphs":
            return Layout(None, tuple(self.graphs))
        gpus = sum(kind.startswith(_GPU_CLASSES) for kind in self.pci.values())
        nics = sum(kind.startswith(_NIC_CLASSES) for kind in self.pci.values())
        found = Topology(self.cpus, max(gpus, len(self.gpus)), nics, tuple(self.gpus), tuple(self.networks))
        return Layout(found, ())


def _graph(attributes: Mapping[str, str]) -> Graph:
    channels = _number(attributes.get("nchannels"))
    return Graph(
        attributes.get("id", "")[:20],
        None if channels is None else int(channels),
        _number(attributes.get("speedintra")),
        _number(attributes.get("speedinter")),
        attributes.get("typeintra", "")[:20],
        attributes.get("typeinter", "")[:20],
    )


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if 0 <= value < 1e15 else None
