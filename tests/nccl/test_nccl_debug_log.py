"""Debug logs written by hand: whole, cut, interleaved and hostile; then real ones."""

from __future__ import annotations

import time

import pytest
from corpus import corpus

from rankscope.analyzers.nccl import debug_log, text
from rankscope.analyzers.nccl.judging import judge
from rankscope.analyzers.nccl.messages import messages


def rank_lines(rank: int, channels: int = 24, host: str = "node1", comm: str = "0xabc", size: int = 2) -> list[str]:
    """What one rank of a communicator prints."""
    begin = f"{host}:{100 + rank}:{200 + rank} [{rank}] NCCL INFO "
    init = f"ncclCommInitRankConfig comm 0x5{rank} rank {rank} nranks {size} cudaDev {rank} nvmlDev {rank} busId 17000"
    return [
        f"{begin}{init} commId {comm} - Init START",
        f"{begin}NCCL version 2.27.7+cuda13.0",
        f"{begin}{channels} coll channels, {channels} collnet channels, 0 nvls channels, 32 p2p channels, 32 per peer",
        f"{begin}{init} commId {comm} - Init COMPLETE",
    ]


def said(rank: int, message: str, host: str = "node1") -> str:
    """A line of a thread of its own, as connections are made."""
    return f"{host}:{100 + rank}:{900 + rank} [{rank}] NCCL INFO {message}"


def two_ranks(*more: str, second: int = 24) -> debug_log.DebugLog:
    return debug_log.read([*rank_lines(0), *rank_lines(1, second), *more])


def test_ranks_channels_rings_trees_and_transports_are_read() -> None:
    (comm,) = two_ranks(
        said(0, "Channel 00/24 : 0 1"),
        said(0, "Trees [0] 1/-1/-1->0->-1 [1] -1/-1/-1->0->1"),
        said(0, "Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM"),
        said(0, "Channel 01/0 : 0[0] -> 1[1] via P2P/CUMEM"),
        said(1, "Channel 01/0 : 1[1] -> 0[0] [send] via NET/IB/8/GDRDMA"),
    ).communicators
    assert (comm.id, comm.size, [rank.rank for rank in comm.ranks]) == ("0xabc", 2, [0, 1])
    assert [(rank.coll_channels, rank.p2p_channels, rank.initialised) for rank in comm.ranks] == [(24, 32, True)] * 2
    assert comm.rings == {0: (0, 1)} and comm.trees == {0: ((0, -1),), 1: ((0, 1),)}
    assert [(c.source, c.target, c.transport, c.channels) for c in comm.connections] == [
        (0, 1, "P2P/CUMEM", 2),
        (1, 0, "NET/IB/GDRDMA", 1),
    ]


def test_what_a_rank_did_not_say_is_none() -> None:
    (comm,) = debug_log.read([rank_lines(0)[0]]).communicators
    (rank,) = comm.ranks
    assert (rank.coll_channels, rank.version, rank.network, rank.initialised) == (None, None, None, False)


def test_prefixes_do_not_hide_a_host_and_interleaving_is_counted() -> None:
    log = debug_log.read([" 3: " + rank_lines(0)[0], "[2026-05-05 06:16:47] " + rank_lines(1)[0]])
    assert [rank.host for rank in log.communicators[0].ranks] == ["node1", "node1"] and log.interleaved_lines == 0
    run_in = debug_log.read(["  float  sum  -1" + rank_lines(0)[0], rank_lines(0)[0] + "  " + rank_lines(1)[0]])
    assert {rank.host for rank in run_in.communicators[0].ranks} == {"node1"}
    assert len(run_in.communicators[0].ranks) == 2 and run_in.interleaved_lines == 2


def test_cut_lines_and_messages_without_a_begin_are_counted_not_guessed() -> None:
    log = debug_log.read([said(0, "Channel 00/0 : 0[0] -> 1[1] via SHM/direct/direct"), "node1:100:2", "NCCL INFO"])
    assert log.communicators == () and log.unplaced_messages == 1 and log.messages == 1


def test_logs_of_single_ranks_become_one_communicator() -> None:
    (comm,) = debug_log.merged([debug_log.read(rank_lines(0)), debug_log.read(rank_lines(1, host="node2"))])
    assert [(rank.rank, rank.host) for rank in comm.ranks] == [(0, "node1"), (1, "node2")]


@pytest.mark.parametrize(("second", "accused"), [(12, (1,)), (13, None)])
def test_half_of_the_channels_accuses_a_rank_and_more_does_not(second: int, accused: tuple[int, ...] | None) -> None:
    found = judge(two_ranks(second=second).communicators)
    assert [finding.ranks for finding in found] == ([accused] if accused else [])


@pytest.mark.parametrize(("channels", "number"), [(2, 1), (12, 1), (13, 0), (24, 0)])
def test_a_communicator_is_compared_with_its_like(channels: int, number: int) -> None:
    bad = [line for rank in (0, 1) for line in rank_lines(rank, channels, "node9", "0xbad")]
    comms = two_ranks().communicators + debug_log.read(bad).communicators
    found = judge(comms)
    assert [(finding.id, finding.communicator) for finding in found] == [("few-channels", "0xbad")] * number
    alone = [line for rank in range(4) for line in rank_lines(rank, 2, "node9", "0xbad", 4)]
    assert judge(two_ranks().communicators + debug_log.read(alone).communicators) == ()  # of another size


def test_shared_memory_is_accused_only_beside_direct_paths() -> None:
    shm = said(1, "Channel 00/0 : 1[1] -> 0[0] via SHM/direct/direct")
    direct = said(0, "Channel 00/0 : 0[0] -> 1[1] via P2P/IPC/read")
    search = said(0, "Pattern 4, crossNic 0, nChannels 12, bw 20.0/20.0, type NVL/PIX, sameChannels 1")
    assert judge(two_ranks(shm).communicators) == () and judge(two_ranks(direct).communicators) == ()
    for sign in (direct, search):
        (finding,) = judge(two_ranks(shm, sign).communicators)
        assert (finding.id, finding.ranks) == ("shm-beside-p2p", (1,))


def test_sockets_are_accused_only_beside_a_fabric() -> None:
    socket = said(1, "Channel 00/0 : 1[1] -> 0[0] [send] via NET/Socket/0")
    assert judge(two_ranks(socket).communicators) == ()
    (finding,) = judge(two_ranks(socket, said(0, "NET/IB : Using [0]mlx5_0:1/RoCE")).communicators)
    assert (finding.id, finding.ranks) == ("socket-beside-fabric", (1,))


def test_differing_versions_within_a_communicator_are_found() -> None:
    (finding,) = judge(two_ranks(said(1, "NCCL version 2.18.3+cuda12.2")).communicators)
    assert finding.id == "differing-versions" and len(finding.evidence) == 2


def test_a_rank_that_never_ends_its_initialisation_is_named() -> None:
    (finding,) = judge(debug_log.read([*rank_lines(0), *rank_lines(1)[:3]]).communicators)
    assert (finding.id, finding.ranks) == ("init-not-complete", (1,))


@pytest.mark.parametrize(
    "line",
    [
        "a" * 16_000 + " NCCL INFO ",
        "a:1:1 " * 2_500 + "NCCL INFO x",
        ":" * 16_000 + "NCCL ",
        "1" * 16_000 + ":1:1 [0] NCCL INFO x",
        "h:1:1 [0] NCCL INFO Trees " + "[0] 1/-1/-1->0->" * 900,
        "h:1:1 [0] NCCL INFO comm 0x1 rank 1 nranks 1 cudaDev 0" + " " * 15_000,
        "x:1:1 [0] NCCL INFO Channel 99/9 : " + "9" * 15_000,
    ],
)
def test_hostile_lines_cost_little(line: str) -> None:
    begin = time.process_time()
    debug_log.read([rank_lines(0)[0].replace("node1", "h"), *[line] * 20])
    messages(line)
    assert time.process_time() - begin < 1.0


def test_a_real_fault_leaves_two_of_twenty_four_channels() -> None:
    logs = [debug_log.read(text.lines(str(corpus(f"nccl-logs/{name}.log")))) for name in ("nccl", "nccl-fault")]
    comms = tuple(debug_log.merged(logs))
    assert [[rank.coll_channels for rank in comm.ranks] for comm in comms] == [[24, 24], [2, 2]]
    assert [len(comm.rings) for comm in comms] == [24, 2]
    assert {c.channels for c in comms[0].connections} == {24} and {c.channels for c in comms[1].connections} == {2}
    (finding,) = judge(comms)
    assert (finding.id, finding.communicator) == ("few-channels", comms[1].id)
    assert all(log.interleaved_lines and log.versions == ("2.27.7+cuda13.0",) for log in logs)


def test_a_real_job_on_two_hosts_accuses_nobody() -> None:
    log = debug_log.read(text.lines(str(corpus("nccl-logs/aws-efa/slurm-104.out"))))
    (comm,) = log.communicators
    assert [rank.rank for rank in comm.ranks] == list(range(16)) and len({rank.host for rank in comm.ranks}) == 2
    assert {rank.coll_channels for rank in comm.ranks} == {8} and len(comm.rings) == 8
    assert all(sorted(ring) == list(range(16)) for ring in comm.rings.values())
    assert {c.transport.split("/")[0] for c in comm.connections} == {"P2P", "NET"}
    across = {(c.source < 8) != (c.target < 8) for c in comm.connections if c.transport.startswith("NET")}
    assert True in across and log.versions == ("2.18.3+cuda12.2",) and judge((comm,)) == ()
