"""Inspector's records, tables of nccl-tests, topologies and matrices: by hand, broken, and real ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from corpus import corpus

from rankscope.analyzers.nccl import inspector, nccl_tests, text, topo_matrix, topo_xml
from rankscope.analyzers.nccl.text import Unreadable

HEADER = [
    "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong",
    "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)",
]
ROW = "     1048576        262144     float     sum      -1    74.78   14.02   24.54      0    76.17   13.77   24.09      0"
WANTED = nccl_tests.Row(1 << 20, "float", 74.78, 14.02, 24.54, 76.17, 13.77, 24.09)
MESSAGE = "node1:1:1 [1] NCCL INFO AllReduce: opCount 0"


def record(rank: int, sequence: int, us: float, busbw: float = 10.0) -> str:
    perf = {"coll": "AllReduce", "coll_sn": sequence, "coll_msg_size_bytes": 4096, "coll_exec_time_us": us}
    header = {"id": "0xabc", "rank": rank, "n_ranks": 2, "nnodes": 1}
    return json.dumps({"header": header, "metadata": {}, "coll_perf": perf | {"coll_busbw_gbs": busbw}})


def test_the_transfer_is_the_time_of_the_rank_that_waited_least() -> None:
    lines = [record(0, 0, 50), record(1, 0, 10, 8.0), record(0, 1, 20, 6.0), record(1, 1, 90)]
    (size,) = inspector.sizes(inspector.read(lines).records)
    assert (size.ranks, size.of_ranks, size.operations, size.transfer_us, size.busbw_gb_per_s) == (2, 2, 2, 15.0, 7.0)


def test_sends_are_read_too() -> None:
    perf = {
        "p2p": "Send",
        "p2p_sn": 3,
        "p2p_peer": 1,
        "p2p_msg_size_bytes": 8,
        "p2p_exec_time_us": 2,
        "p2p_busbw_gbs": 1,
    }
    (found,) = inspector.read([json.dumps({"header": json.loads(record(0, 0, 1))["header"], "p2p_perf": perf})]).records
    assert (found.operation, found.sequence, found.message_bytes) == ("Send", 3, 8)


@pytest.mark.parametrize(
    "line",
    [
        record(0, 0, 1)[:-9],
        "[" * 10_000,
        "[]",
        "7",
        record(0, 0, float("nan")),
        record(0, 0, float("inf")),
        record(0, 0, -1),
        record(-1, 0, 1),
        record(0, 1 << 70, 1),
        record(0, 0, 1).replace('"rank": 0', '"rank": "0"'),
    ],
)
def test_a_line_that_is_no_record_is_counted(line: str) -> None:
    found = inspector.read([line, record(0, 0, 1)])
    assert found.bad_lines == 1 and len(found.records) == 1


def test_real_records_of_four_ranks_are_joined() -> None:
    files = sorted(corpus("nccl-inspector/4x4090").glob("stone-pid*.log"))
    found = [inspector.read(text.lines(str(file))) for file in files]
    assert [one.bad_lines for one in found] == [0] * 4 and [len(one.records) for one in found] == [448] * 4
    sizes = inspector.sizes(entry for one in found for entry in one.records)
    assert [(size.message_bytes >> 27, size.ranks, size.operations) for size in sizes] == [
        (n, 4, 112) for n in (1, 2, 4, 8)
    ]
    for size in sizes:  # bus bandwidth of an all-reduce: 2 (n - 1) / n times the bytes over the time
        assert size.busbw_gb_per_s == pytest.approx(1.5 * size.message_bytes / size.transfer_us / 1e3, rel=0.01)


def test_a_row_is_read_whole_or_in_pieces() -> None:
    cut, at = ROW.index("74.78"), ROW.index("76.17")
    pieces = [ROW[:cut].rstrip() + MESSAGE, MESSAGE, ROW[cut:at].rstrip() + MESSAGE, ROW[at:]]
    for lines in ([ROW], ["0: " + ROW], pieces):
        table = nccl_tests.read([*HEADER, *lines, "# Avg bus bandwidth    : 68.4048 "])
        assert table == nccl_tests.Table((WANTED,), 68.4048, 0)


def test_rows_that_stay_short_or_hold_no_figures_are_counted() -> None:
    assert nccl_tests.read([*HEADER, ROW[:80], ROW, ROW[:80]]) == nccl_tests.Table((WANTED,), None, 2)
    assert nccl_tests.read([*HEADER, ROW.replace("74.78", "N/A")]).cut_rows == 1
    assert nccl_tests.read([ROW]) == nccl_tests.Table((), None, 0)  # no header says what the columns are


@pytest.mark.parametrize(
    ("path", "sizes", "best", "average"),
    [
        ("nccl-logs/nccl.log", 11, 216.60, 178.078),
        ("nccl-logs/nccl-fault.log", 11, 28.55, 28.2632),
        ("nccl-logs/aws-efa/slurm-104.out", 29, 80.59, 20.2635),
        ("superbench/nccl_allreduce.log", 34, 235.26, 68.4048),
        ("superbench/nccl_allgather.log", 34, 223.39, 58.2651),
    ],
)
def test_real_tables_are_whole(path: str, sizes: int, best: float, average: float) -> None:
    table = nccl_tests.read(text.lines(str(corpus(path))))
    assert (len(table.rows), table.cut_rows) == (sizes, 0)
    assert max(row.out_of_place_busbw_gb_per_s for row in table.rows) == best
    assert table.average_busbw_gb_per_s == pytest.approx(average, abs=1e-3)
    means = [(row.out_of_place_busbw_gb_per_s + row.in_place_busbw_gb_per_s) / 2 for row in table.rows]
    assert sum(means) / len(means) == pytest.approx(average, abs=0.01)


SYSTEM = b"""<!-- a -- comment as NCCL takes it -->
<system version="1"><cpu numaid="0"><pci busid="1" class="0x060400"><pci busid="2" class="0x030200">
<gpu dev="0" sm="90"><nvlink target="9" count="5"/><nvlink target="8" count="4"/></gpu></pci>
<pci busid="3" class="0x020700"><nic><net name="mlx5_0" dev="0"/></nic></pci></pci></cpu></system>"""


def test_a_topology_counts_devices_and_links() -> None:
    assert topo_xml.read(SYSTEM, "x").topology == topo_xml.Topology(1, 1, 1, (9,), ("mlx5_0",))


def test_graphs_say_channels_and_speeds_and_none_where_they_do_not() -> None:
    content = (
        b'<graphs version="1"><graph id="0" nchannels="2" speedintra="12" typeintra="SYS"><channel/></graph></graphs>'
    )
    assert topo_xml.read(content, "x").graphs == (topo_xml.Graph("0", 2, 12.0, None, "SYS", ""),)


@pytest.mark.parametrize(
    "content",
    [
        b'<!DOCTYPE a [<!ENTITY b "c">]><system>&b;</system>',
        b'<!DOCTYPE a SYSTEM "/etc/passwd"><system/>',
        b"<system><cpu>",
        b"<system>" * 100,
        b"<system>" + b"<cpu/>" * 100_001 + b"</system>",
        b"<html/>",
        b"<!--" * 100_000,
        b"",
        b"\xff\xfe\x00",
    ],
)
def test_broken_and_hostile_xml_is_refused(content: bytes) -> None:
    with pytest.raises(Unreadable, match=r"some\.xml"):
        topo_xml.read(content, "some.xml")


@pytest.mark.parametrize("count", ["x", "nan", "inf", "-4", "1e300", ""])
def test_an_impossible_count_of_links_is_none(count: str) -> None:
    found = topo_xml.read(f'<system><gpu dev="0"><nvlink count="{count}"/></gpu></system>'.encode(), "x")
    assert found.topology is not None and found.topology.nvlinks == (0,)


@pytest.mark.parametrize(
    ("path", "gpus", "links"),
    [
        ("azure/ncv4-topo.xml", 4, {12}),
        ("azure/ndv5-topo.xml", 8, set()),
        ("oci-h100/H100-topology.xml", 8, {18}),
        ("rccl/topo_8p1h_5.xml", 8, {6, 7}),
    ],
)
def test_real_topologies_are_read(path: str, gpus: int, links: set[int]) -> None:
    layout = topo_xml.read(corpus(f"nccl-topo/{path}").read_bytes(), path)
    assert layout.topology is not None and layout.topology.gpus == gpus and set(layout.topology.nvlinks) == links


def test_every_real_topology_is_one_thing_or_the_other() -> None:
    for path in sorted(corpus("nccl-topo").rglob("*.xml")):
        layout = topo_xml.read(path.read_bytes(), path.name)
        assert (layout.topology is None) == ("graph" in path.name) == bool(layout.graphs)


MATRIX = [
    "\t\x1b[4mGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m",
    "GPU0\t X \tNV18\tPIX\t0-31\t0\t\tN/A",
    "GPU1\tNV18\t X \tSYS\t0-31\t0\t\tN/A",
    "NIC0\tPIX\tSYS\t X ",
    "",
    "Legend:",
    "  X    = Self",
    "GPU0\tSYS\tSYS\tSYS",
]


def test_a_matrix_is_read_with_tabs_or_without() -> None:
    for lines in (MATRIX, [line.replace("\t", "  ") for line in MATRIX]):
        matrix = topo_matrix.read(lines)
        assert matrix.devices == ("GPU0", "GPU1", "NIC0") and matrix.cut_rows == 0
        assert matrix.paths["GPU0", "GPU1"] == "NV18" and matrix.paths["NIC0", "GPU1"] == "SYS"
        assert topo_matrix.between_gpus(matrix) == {"NV18": 1}


def test_a_cut_row_of_a_matrix_is_counted_and_left_out() -> None:
    matrix = topo_matrix.read([MATRIX[0], "GPU0\t X \tNV18", MATRIX[2]])
    assert matrix.cut_rows == 1 and ("GPU0", "GPU1") not in matrix.paths


def test_long_lines_keep_their_beginning_and_pipes_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "long"
    file.write_bytes(b"a" * 50_000 + b"\nb\n")
    assert [len(line) for line in text.lines(str(file))] == [text.LINE_CHARACTERS, 1]
    with pytest.raises(Unreadable):
        next(text.lines("/dev/null"))
