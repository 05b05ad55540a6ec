"""Small traces made by hand, with the exact figures that docs/accounting.md implies: ranks together.

A case is a function: its docstring is the why, its body the events, its return value the ranks and the expected keys of
the report. Times are integer nanoseconds, most of them whole microseconds, so 20_000 reads as 20 us. The comment on a
line gives the arithmetic of its numbers in us, in their order, separated by semicolons; `a..b` is a stretch of time.
`launch(at, start, end)` is a runtime call at `at` and the kernel it starts; `copy` and `collective` likewise.
"""
# fmt: off

from __future__ import annotations

from contract.rows import row
from contract.writer import COMM, Case, Rank


def two_collectives_at_once() -> Case:
    """While one collective of rank 0 waits for a late rank, another moves bytes and a third has no peer's file. Each
    instant counts once: transfer beats unsplit beats wait. Sums over collectives would bill 100 + 140 + 10 us of the
    160 in which nothing was computed."""
    a, b, c = (Rank(n, 4) for n in range(3))  # rank 3's file is missing
    for r, end, resume in (a, 100_000, 260_000), (b, 150_000, 200_000), (c, 120_000, 260_000):
        r.step(1, 0, 300_000)
        r.launch(5_000, 10_000, end)
        r.launch(6_000, resume, 300_000)
    a.collective("allreduce", 7_000, 100_000, 200_000, 1, [0, 1], "1", stream=20)
    b.collective("allreduce", 7_000, 150_000, 200_000, 1, [0, 1], "1", stream=20)
    a.collective("_reduce_scatter_base", 8_000, 120_000, 260_000, 1, [0, 2], "2", (2000, 1000), stream=21)
    c.collective("_reduce_scatter_base", 8_000, 120_000, 260_000, 1, [0, 2], "2", (2000, 1000), stream=21)
    a.collective("_allgather_base", 9_000, 100_000, 110_000, 1, [0, 3], "3", (1000, 2000), stream=22)
    host = {"other_ns": 5_000, "launch_ns": 5_000}  # 0..5; 5..10
    return [a, b, c], {"attribution": [
        row(a, 1, 300_000, kernel_ns=130_000, **host,  # 90 + 40
            unsplit_ns=10_000,  # 100..110: rank 3's file is missing; beats the all-reduce's wait
            wait_ns=10_000, transfer_ns=140_000),  # 110..120, for rank 1; 120..260
        row(b, 1, 300_000, kernel_ns=240_000, **host, transfer_ns=50_000),  # 140 + 100; 150..200
        row(c, 1, 300_000, kernel_ns=150_000, **host, transfer_ns=140_000)],  # 110 + 40; 120..260
        "collectives": {"waited_ns": {"0": 10_000, "1": 0, "2": 0},  # what the rows count as wait
                        "caused_ns": {"0": 0, "1": 10_000, "2": 0}},
        "run": {"world_size": 4, "missing_ranks": [3]}}


def one_late_rank() -> Case:
    """Rank 1 computes longer. Rank 0 shows 90 us of all-reduce and rank 1 only 40, so a table of communication time
    blames rank 0 and the network. The 50 us are rank 0's waiting, charged to rank 1; the transfer takes 40 on both."""
    a, b = Rank(0, 2), Rank(1, 2)
    for r, arrival in (a, 60_000), (b, 110_000):
        r.step(1, 0, 200_000)
        r.launch(5_000, 10_000, arrival)
        r.collective("allreduce", 6_000, arrival, 150_000, 1)
        r.launch(7_000, 150_000, 180_000)
    host = {"other_ns": 25_000, "launch_ns": 5_000}  # 0..5 and 180..200; 5..10
    return [a, b], {"attribution": [
        row(a, 1, 200_000, kernel_ns=80_000, **host, wait_ns=50_000, transfer_ns=40_000),  # 50 + 30; 60..110; 110..150
        row(b, 1, 200_000, kernel_ns=130_000, **host, transfer_ns=40_000)],  # 100 + 30; 110..150
        "collectives": {"unmatched": 0, "waited_ns": {"0": 50_000, "1": 0}, "caused_ns": {"0": 0, "1": 50_000},
                        "alone_ns": {"0": 0, "1": 50_000}, "hidden_wait_ns": {"0": 0, "1": 0},  # 110 - 60
                        "last_arrivals": {"0": 0, "1": 1}},
        "clock": [{"rank": 0, "offset_ns": 0, "method": "shared_clock"},
                  {"rank": 1, "offset_ns": 0, "method": "shared_clock"}]}


def two_late_together() -> Case:
    """Four ranks, two of them late together, the commonest fault there is (a host, a switch). `Last minus second-last`
    is 0 in the first collective: nobody is charged for 200 us of waiting. Each gap is shared by the ranks that came
    after it; charged = waited."""
    ranks = [Rank(n, 4) for n in range(4)]
    firsts, seconds = (50_000, 50_000, 150_000, 150_000), (250_000, 260_000, 300_000, 310_000)
    for r, first, second in zip(ranks, firsts, seconds, strict=True):
        r.step(1, 0, 400_000)
        r.launch(5_000, 10_000, first)
        r.collective("allreduce", 6_000, first, 200_000, 1)
        r.launch(7_000, 200_000, second)
        r.collective("allreduce", 8_000, second, 350_000, 2)
        r.launch(9_000, 350_000, 380_000)
    # 0..5 and 380..400; 5..10; 150..200 and 310..350
    same = {"other_ns": 25_000, "launch_ns": 5_000, "transfer_ns": 90_000}
    return ranks, {"attribution": [
        row(ranks[0], 1, 400_000, **same, kernel_ns=120_000, wait_ns=160_000),  # 40 + 50 + 30; 50..150 and 250..310
        row(ranks[1], 1, 400_000, **same, kernel_ns=130_000, wait_ns=150_000),  # 40 + 60 + 30; 50..150 and 260..310
        row(ranks[2], 1, 400_000, **same, kernel_ns=270_000, wait_ns=10_000),  # 140 + 100 + 30; 300..310
        row(ranks[3], 1, 400_000, **same, kernel_ns=280_000, wait_ns=0)],  # 140 + 110 + 30; always last
        # First: 2 x 100_000 / 2 to ranks 2 and 3. Second: 1 x 10_000 / 3 to ranks 1, 2 and 3, the odd nanosecond to the
        # last; 2 x 40_000 / 2 to ranks 2 and 3; 3 x 10_000 / 1 to rank 3. Both sums are 320_000.
        "collectives": {"waited_ns": {"0": 160_000, "1": 150_000, "2": 10_000, "3": 0},
                        "caused_ns": {"0": 0, "1": 3_333, "2": 143_333,  # 100_000 + 3_333 + 40_000
                                      "3": 173_334},  # 100_000 + 3_334 + 40_000 + 30_000
                        "alone_ns": {"0": 0, "1": 0, "2": 0, "3": 10_000}}}  # 0 in the first, 310 - 300 in the second


def inherited_delay() -> Case:
    """Rank 0 is slow. Its tensor-parallel peer, rank 1, waits 100 us for it and so comes late to its own data-parallel
    group, where rank 3 waits. Rank 1 is charged only the 20 us it adds itself; the other 100 are rank 0's. Groups are
    told by their members: here two groups are called "1", and one group has two names."""
    ranks = [Rank(n, 4) for n in range(4)]
    for r, first, tensor, second, data, name in zip(  # ends: kernel, tensor-parallel one, kernel, data-parallel one
            ranks, (160_000, 60_000, 60_000, 60_000), (180_000, 180_000, 80_000, 80_000),
            (230_000, 250_000, 130_000, 130_000), (260_000, 280_000, 260_000, 280_000), "2343", strict=True):
        r.step(1, 0, 300_000)
        r.launch(5_000, 10_000, first)
        r.collective("allreduce", 6_000, first, tensor, 1, [0, 1] if r.rank < 2 else [2, 3], "1")
        r.launch(7_000, tensor, second)
        r.collective("allreduce", 8_000, second, data, 1, [0, 2] if r.rank % 2 == 0 else [1, 3], name)
        r.launch(9_000, data, data + 20_000)
    early = {"launch_ns": 5_000, "other_ns": 25_000}  # 5..10; 0..5 and 280..300
    late = {"launch_ns": 5_000, "other_ns": 5_000}  # 5..10; 0..5
    return ranks, {"attribution": [
        row(ranks[0], 1, 300_000, **early, kernel_ns=220_000, transfer_ns=50_000),  # 150+50+20; 160..180 and 230..260
        row(ranks[1], 1, 300_000, **late, kernel_ns=140_000, transfer_ns=50_000,  # 50 + 70 + 20; 160..180 and 250..280
            wait_ns=100_000),  # 60..160, for rank 0
        row(ranks[2], 1, 300_000, **early, kernel_ns=120_000, transfer_ns=50_000,  # 50 + 50 + 20; 60..80 and 230..260
            wait_ns=100_000),  # 130..230, for rank 0
        row(ranks[3], 1, 300_000, **late, kernel_ns=120_000, transfer_ns=50_000,  # 50 + 50 + 20; 60..80 and 250..280
            wait_ns=120_000)],  # 130..250, for rank 1
        "collectives": {"unmatched": 0, "waited_ns": {"0": 0, "1": 100_000, "2": 100_000, "3": 120_000},
                        "caused_ns": {"0": 300_000, "1": 20_000,  # 100 of 1, 100 of 2, 100 of 3's 120; the other 20
                                      "2": 0, "3": 0}}}


def hidden_wait() -> Case:
    """A prefetched all-gather is launched early and spins under compute for 80 us until rank 1 comes. Nothing is lost:
    no wait in the row, nobody charged, the hidden wait published beside it. Charging it would give every healthy
    prefetching run a straggler."""
    a, b = Rank(0, 2), Rank(1, 2)
    for r, kernel_end, start in (a, 150_000, 40_000), (b, 120_000, 120_000):
        r.step(1, 0, 200_000)
        r.launch(5_000, 10_000, kernel_end)
        r.collective("_allgather_base", 8_000, start, 170_000, 1, elements=(1000, 2000))
        r.launch(9_000, 170_000, 190_000)
    host = {"other_ns": 15_000, "launch_ns": 5_000}  # 0..5 and 190..200; 5..10
    return [a, b], {"attribution": [
        row(a, 1, 200_000, **host, kernel_ns=160_000, transfer_ns=20_000, hidden_communication=110_000),
            # 140 + 20; 150..170; 40..150
        row(b, 1, 200_000, **host, kernel_ns=130_000, transfer_ns=50_000, hidden_communication=0)],  # 110+20; 120..170
        "collectives": {"waited_ns": {"0": 0, "1": 0}, "caused_ns": {"0": 0, "1": 0}, "alone_ns": {"0": 0, "1": 0},
                        "hidden_wait_ns": {"0": 80_000, "1": 0}}}  # 40..120


def single_rank_file() -> Case:
    """One rank's file of a run of two. How much of the all-reduce was waiting cannot be known, and "0 us of wait" would
    be a lie: the time is communication without a split."""
    r = Rank(0, 2)
    r.step(1, 0, 100_000)
    r.launch(5_000, 10_000, 50_000)
    r.collective("allreduce", 20_000, 40_000, 90_000, 1)
    return [r], {"attribution": [row(
        r, 1, 100_000, kernel_ns=40_000, other_ns=15_000, launch_ns=5_000,  # 10..50; 0..5 and 90..100; 5..10
        unsplit_ns=40_000, hidden_communication=10_000)],  # 50..90; 40..50
        "collectives": {"matched": 0, "unmatched": 1},
        "run": {"world_size": 2, "ranks": [0], "missing_ranks": [1]}}


def unequal_counts() -> Case:
    """An old trace: no group, no sequence number, and rank 1's capture began after the first collective. Matching first
    with first makes each pair differ by a whole iteration and invents waiting; the alignment whose ends agree leaves
    the first one unmatched."""
    a, b = Rank(0, 2), Rank(1, 2)
    old = {"name": "ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, unsigned long, ncclWork*)", "stream": COMM}
    a.step(1, 0, 450_000)
    seen_by_a = (10_000, 50_000, 80_000), (80_000, 150_000, 300_000), (300_000, 320_000, 400_000)
    for n, (start, arrival, end) in enumerate(seen_by_a):
        a.launch(5_000 + 2_000 * n, start, arrival)
        a.launch(6_000 + 2_000 * n, arrival, end, **old)
    a.launch(11_000, 400_000, 430_000)
    b.step(1, 80_000, 450_000)
    for n, (start, arrival, end) in enumerate(((90_000, 280_000, 300_000), (300_000, 380_000, 400_000))):
        b.launch(85_000 + 2_000 * n, start, arrival)
        b.launch(86_000 + 2_000 * n, arrival, end, **old)
    b.launch(89_000, 400_000, 430_000)
    host = {"other_ns": 25_000, "launch_ns": 5_000}  # 0..5 (b: 80..85) and 430..450; 5..10 (85..90)
    return [a, b], {"attribution": [
        row(a, 1, 450_000, **host, kernel_ns=160_000, unsplit_ns=30_000,  # 40+70+20+30; 50..80, the one that b lacks
            wait_ns=190_000, transfer_ns=40_000),  # 150..280 and 320..380; 280..300 and 380..400
        row(b, 1, 370_000, **host, kernel_ns=300_000, transfer_ns=40_000)],  # 190 + 80 + 30; 20 + 20
        "collectives": {"unmatched": 1, "waited_ns": {"0": 190_000, "1": 0}, "caused_ns": {"0": 0, "1": 190_000},
                        "alone_ns": {"0": 0, "1": 190_000}, "last_arrivals": {"0": 0, "1": 2}}}  # 130 + 60


def broadcast_from_root() -> Case:
    """In a broadcast the leaves wait for the root and for nobody else; the root does not wait and may be gone before a
    slow leaf comes. `Last arrival` would give the root 30 us of wait, rank 1 all of its 90, and blame rank 2, who
    delayed nobody. The root is the `Rank` of `record_param_comms`, tied to the kernel by `External id`."""
    ranks = [Rank(n, 3) for n in range(3)]
    for r, start, end in zip(ranks, (80_000, 30_000, 140_000), (110_000, 120_000, 150_000), strict=True):
        r.step(1, 0, 200_000)
        r.launch(5_000, 10_000, start)
        r.collective("broadcast", 6_000, start, end, 1, root=0)
        r.launch(7_000, 160_000, 200_000)
    host = {"other_ns": 5_000, "launch_ns": 5_000}  # 0..5; 5..10
    return ranks, {"attribution": [
        row(ranks[0], 1, 200_000, **host, kernel_ns=110_000, transfer_ns=30_000, kernel_gap_ns=50_000),
            # 70 + 40; 80..110; 110..160
        row(ranks[1], 1, 200_000, **host, kernel_ns=60_000, transfer_ns=40_000, kernel_gap_ns=40_000,
            wait_ns=50_000),  # 20 + 40; 80..120; 120..160; 30..80, for the root
        row(ranks[2], 1, 200_000, **host, kernel_ns=170_000, transfer_ns=10_000, kernel_gap_ns=10_000)],
            # 130 + 40; 140..150; 150..160
        "collectives": {"waited_ns": {"0": 0, "1": 50_000, "2": 0}, "caused_ns": {"0": 50_000, "1": 0, "2": 0}}}


def send_receive() -> Case:
    """A pipeline stage posts its receive early, by design. The receiver's wait is a dependency: wait in the row, and no
    evidence against stage 0. Messages pair by source, destination and order: by `Seq`, counted per rank, the second
    receive would pair with the first send and show no wait."""
    a, b = Rank(0, 2), Rank(1, 2)
    a.step(1, 0, 200_000)
    a.launch(5_000, 10_000, 90_000)
    a.collective("send", 6_000, 90_000, 110_000, 2, peer=1)
    a.launch(7_000, 110_000, 150_000)
    a.collective("send", 8_000, 150_000, 170_000, 3, peer=1)
    b.step(1, 0, 200_000)
    b.collective("recv", 5_000, 10_000, 110_000, 1, peer=0)
    b.launch(6_000, 110_000, 130_000)
    b.collective("recv", 7_000, 130_000, 170_000, 2, peer=0)
    b.launch(8_000, 170_000, 190_000)
    return [a, b], {"attribution": [
        row(a, 1, 200_000, other_ns=35_000, launch_ns=5_000,  # 0..5 and 170..200; 5..10
            kernel_ns=120_000, transfer_ns=40_000),  # 80 + 40; 20 + 20
        row(b, 1, 200_000, other_ns=15_000, launch_ns=5_000,  # 0..5 and 190..200; 5..10
            # 20 + 20; 10..90 and 130..150; 90..110 and 150..170
            kernel_ns=40_000, wait_ns=100_000, transfer_ns=40_000)],
        "collectives": {"unmatched": 0, "waited_ns": {"0": 0, "1": 0}, "caused_ns": {"0": 0, "1": 0}}}


def two_clocks() -> Case:
    """Two hosts whose clocks differ by 11.56 s, found again from the ends of their common all-reduces; without it every
    wait is 0 or the kernel's whole length. Rank 2 shares no collective with them (its only peer's file is missing): its
    offset is unknown, not 0."""
    ahead = 11_560_000_000
    a, b, c = Rank(0, 4, "node0"), Rank(1, 4, "node1", ahead), Rank(2, 4, "node2", -3_210_000_000)
    for r, arrivals in (a, (50_000, 150_000, 250_000)), (b, (80_000, 180_000, 280_000)):
        r.step(1, 0, 320_000)
        starts, ends = (10_000, 100_000, 200_000), (100_000, 200_000, 300_000)
        for n, (start, arrival, end) in enumerate(zip(starts, arrivals, ends, strict=True)):
            r.launch(5_000 + 2_000 * n, start, arrival)
            r.collective("allreduce", 6_000 + 2_000 * n, arrival, end, n + 1, [0, 1], "1")
    c.step(1, 0, 320_000)
    c.launch(5_000, 10_000, 50_000)
    c.collective("allreduce", 6_000, 50_000, 100_000, 1, [2, 3], "1")
    return [a, b, c], {"attribution": [
        row(a, 1, 320_000, other_ns=25_000, launch_ns=5_000,  # 0..5 and 300..320; 5..10
            kernel_ns=140_000, wait_ns=90_000, transfer_ns=60_000),  # 40 + 50 + 50; 3 x 30; 3 x 20
        row(b, 1, 320_000, other_ns=25_000, launch_ns=5_000,
            kernel_ns=230_000, transfer_ns=60_000),  # 70 + 80 + 80; 3 x 20
        row(c, 1, 320_000, other_ns=225_000, launch_ns=5_000,  # 0..5 and 100..320; 5..10
            kernel_ns=40_000, unsplit_ns=50_000)],  # 10..50; 50..100
        "collectives": {"waited_ns": {"0": 90_000, "1": 0, "2": 0}, "caused_ns": {"0": 0, "1": 90_000, "2": 0},
                        "alone_ns": {"0": 0, "1": 90_000, "2": 0}},  # 3 x 30
        "clock": [{"rank": 0, "host": "node0", "offset_ns": 0},  # the reference
                  {"rank": 1, "host": "node1", "offset_ns": ahead, "residual_ns": 0},  # common time = own time - offset
                  {"rank": 2, "host": "node2", "offset_ns": None, "method": "not_identifiable"}],
        "run": {"missing_ranks": [3]}}


def gloo_on_cpu() -> Case:
    """No device: compute is what working operators do on the training thread. The backward wrapper spans the wait, so
    counting `any operator` makes both ranks equal and the slow one invisible. Tensor operators inside the loader are
    input; those on gloo's thread are nobody's compute. Arrival is the launch: gloo's own event starts some us later."""
    a, b = (Rank(n, 2, backend="gloo", device=None) for n in range(2))
    for r, forward, started in (a, 80_000, 115_000), (b, 180_000, 214_000):
        r.step(1, 0, 300_000)
        r.loader(0, 40_000)
        r.op("aten::stack", 5_000, 35_000)
        r.op("aten::mm", 40_000, forward)
        r.op("autograd::engine::evaluate_function: MmBackward0", forward, 260_000)
        r.op("MmBackward0", forward + 1_000, 259_000)
        r.op("aten::mm", forward + 5_000, forward + 25_000)
        r.gloo(forward + 30_000, started, 250_000)
        r.op("aten::add_", 262_000, 282_000)
    a.gc(285_000, 290_000)
    return [a, b], {"attribution": [
        row(a, 1, 300_000, data_loading_ns=40_000, kernel_ns=80_000,  # 0..40; 40..80, 85..105 and 262..282
            wait_ns=100_000, transfer_ns=40_000, gc_ns=5_000,  # 110..210; 210..250; 285..290
            other_ns=35_000),  # 80..85, 105..110, 250..262, 282..285, 290..300
        row(b, 1, 300_000, data_loading_ns=40_000, kernel_ns=180_000,  # 0..40; 40..180, 185..205 and 262..282
            transfer_ns=40_000, other_ns=40_000)],  # 210..250; 180..185, 205..210, 250..262, 282..300
        "collectives": {"unmatched": 0, "waited_ns": {"0": 100_000, "1": 0}, "caused_ns": {"0": 0, "1": 100_000},
                        "alone_ns": {"0": 0, "1": 100_000}}}  # 210 - 110


def bandwidth() -> Case:
    """Bandwidth is the larger buffer of one rank over the time from the last arrival to the end. Over the whole
    duration the all-gather looks five times slower on the ranks that waited; an all-to-all whose buffer is multiplied
    by the ranks looks four times faster."""
    ranks = [Rank(n, 4) for n in range(4)]
    for r in ranks:
        arrival = 90_000 if r.rank == 3 else 50_000
        r.step(1, 0, 200_000)
        r.launch(5_000, 10_000, arrival)
        r.collective("_allgather_base", 6_000, arrival, 100_000, 1, elements=(10_000, 40_000))
        r.launch(7_000, 100_000, 150_000)
        r.collective("all_to_all", 8_000, 150_000, 160_000, 2, elements=(20_000, 20_000))
    return ranks, {"collectives": {"by_group": [
        {"ranks": [0, 1, 2, 3], "bytes": 160_000, "count": 1,  # 40_000 elements x 4 B
         "bus_bytes_per_s": 12_000_000_000},  # 160_000 B / 10 us = 16 GB/s, x 3/4
        {"ranks": [0, 1, 2, 3], "bytes": 80_000, "count": 1,  # 20_000 elements x 4 B
         "bus_bytes_per_s": 6_000_000_000}]}}  # 80_000 B / 10 us = 8 GB/s, x 3/4
