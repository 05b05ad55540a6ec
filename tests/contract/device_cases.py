"""Small traces made by hand, with the exact figures that docs/accounting.md implies: the time of one device.

A case is a function: its docstring is the why, its body the events, its return value the ranks and the expected keys of
the report. Times are integer nanoseconds, most of them whole microseconds, so 20_000 reads as 20 us. The comment on a
line gives the arithmetic of its numbers in us, in their order, separated by semicolons; `a..b` is a stretch of time.
`launch(at, start, end)` is a runtime call at `at` and the kernel it starts; `copy` and `collective` likewise.
"""
# fmt: off

from __future__ import annotations

from contract.rows import row
from contract.writer import COMPUTE, Case, Rank


def plain_step() -> Case:
    """Idle is not one thing. Until the host launches, it is the host's time; from the launch to the start it is
    latency; between two kernels already queued it is the device's own gap. A step ends with its last kernel, not with
    the host's mark."""
    r = Rank()
    r.step(1, 0, 100_000)
    r.launch(10_000, 20_000, 45_000)
    r.launch(15_000, 50_000, 80_000)  # launched before 45_000: the gap before it is the device's
    r.launch(95_000, 98_000, 120_000)  # runs past the mark: the tail belongs to step 1
    r.step(2, 100_000, 200_000)
    r.launch(110_000, 130_000, 160_000)  # launched while the tail ran
    return [r], {"attribution": [
        row(r, 1, 120_000,  # 0..max(100, 120)
            kernel_ns=77_000, kernel_gap_ns=5_000,  # 25 + 30 + 22; 45..50
            launch_ns=13_000, other_ns=25_000),  # 10..20 and 95..98; 0..10 and 80..95
        row(r, 2, 80_000,  # 120..max(200, 160)
            kernel_ns=30_000, kernel_gap_ns=10_000,  # 130..160; 120..130, launched at 110
            other_ns=40_000),  # 160..200, nothing follows
        row(r, None, 200_000,  # the two rows together
            kernel_ns=107_000, kernel_gap_ns=15_000, launch_ns=13_000, other_ns=65_000)]}  # 77+30; 5+10; 13; 25+40


def host_runs_ahead() -> Case:
    """The host marks steps of 20 us and is done long before the device: cut at its marks, most of the device's work
    lies outside every window. A step begins where the device has finished what was launched before the mark. The marks'
    projections on the device track are neither windows nor work."""
    r = Rank()
    for n, start, kernel in (1, 0, (10_000, 110_000)), (2, 20_000, (110_000, 210_000)), (3, 40_000, (215_000, 315_000)):
        r.step(n, start, start + 20_000)
        r.launch(start + 5_000, *kernel)
        r.event("gpu_user_annotation", f"ProfilerStep#{n}", *kernel, {"External id": r.last_id}, pid=0, tid=COMPUTE)
    return [r], {"attribution": [
        row(r, 1, 110_000,  # 0..max(20, 110)
            other_ns=5_000, launch_ns=5_000, kernel_ns=100_000),  # 0..5; 5..10; 10..110
        row(r, 2, 100_000, kernel_ns=100_000),  # 110..max(40, 210); 110..210
        row(r, 3, 105_000,  # 210..max(60, 315)
            kernel_gap_ns=5_000, kernel_ns=100_000)]}  # 210..215, launched at 45; 215..315


def background_copy() -> Case:
    """A prefetching copy is in flight when the step turns. It must not move the boundary, which only compute kernels
    do; its time is divided by the clock, and what runs under a kernel costs nothing."""
    r = Rank()
    r.step(1, 0, 100_000)
    r.launch(5_000, 10_000, 90_000)
    r.copy("HtoD", 20_000, 50_000, 150_000)
    r.step(2, 100_000, 200_000)
    r.launch(105_000, 120_000, 180_000)
    return [r], {"attribution": [
        row(r, 1, 100_000,  # 0..max(100, 90), not 150
            other_ns=5_000, launch_ns=5_000, kernel_ns=80_000,  # 0..5; 5..10; 10..90
            host_to_device_ns=10_000, hidden_io=40_000),  # 90..100; 50..90
        row(r, 2, 100_000,  # 100..max(200, 180)
            host_to_device_ns=20_000, kernel_ns=60_000, other_ns=20_000,  # 100..120; 120..180; 180..200
            hidden_io=30_000)]}  # 120..150


def loader_stall() -> Case:
    """The loader takes 30 us in each step. In the first the device stands still for it; in the second the device is
    busy for 20 of the 30. Summing the loader's spans bills 60 us; a faster loader would return 40."""
    r = Rank()
    r.step(1, 0, 100_000)
    r.loader(0, 30_000)
    r.launch(35_000, 40_000, 120_000)
    r.step(2, 100_000, 200_000)
    r.loader(100_000, 130_000)
    r.launch(140_000, 145_000, 195_000)
    return [r], {"attribution": [
        row(r, 1, 120_000,  # 0..max(100, 120)
            data_loading_ns=30_000, other_ns=5_000, launch_ns=5_000,  # 0..30; 30..35; 35..40
            kernel_ns=80_000, hidden_io=20_000),  # 40..120; the loader's 100..120 under the kernel
        row(r, 2, 80_000,  # 120..max(200, 195)
            data_loading_ns=10_000, other_ns=15_000,  # 120..130; 130..140 and 195..200
            launch_ns=5_000, kernel_ns=50_000, hidden_io=0)]}  # 140..145; 145..195; the rest of the loader is exposed


def loader_behind_queue() -> Case:
    """The loader runs while kernels wait in the queue. The gap between two queued kernels is not the loader's, though
    at that instant the device is idle and the thread is in the loader: a faster loader would not close it."""
    r = Rank()
    r.step(1, 0, 50_000)
    r.launch(5_000, 10_000, 60_000)
    r.launch(6_000, 65_000, 100_000)
    r.step(2, 50_000, 150_000)
    r.loader(50_000, 90_000)
    r.launch(95_000, 100_000, 150_000)
    return [r], {"attribution": [
        row(r, 1, 100_000,  # 0..max(50, 100)
            other_ns=5_000, launch_ns=5_000, kernel_ns=85_000,  # 0..5; 5..10; 50 + 35
            kernel_gap_ns=5_000),  # 60..65, launched at 6: not data_loading
        row(r, 2, 50_000, kernel_ns=50_000)]}  # 100..max(150, 150); 100..150


def starved_gap() -> Case:
    """While the host has not asked for work, each nanosecond goes to what the host does. Garbage collection beats the
    allocator call inside it. After a drain the whole refill is the price of the synchronisation, Python included. A
    synchronise call that finds the device already idle drained nothing: that gap stays `other`."""
    r = Rank()
    r.step(1, 0, 200_000)
    r.gc(5_000, 15_000)
    r.call("cudaFree", 12_000, 14_000)  # inside the collection
    r.call("cudaMalloc", 15_000, 20_000)
    r.launch(25_000, 30_000, 60_000)
    r.call("cudaStreamSynchronize", 40_000, 62_000)  # waits at 60_000: a drain
    r.gc(65_000, 70_000)
    r.launch(80_000, 85_000, 120_000)
    r.call("cudaDeviceSynchronize", 125_000, 127_000)  # begins after 120_000: no drain
    r.launch(145_000, 150_000, 200_000)
    return [r], {"attribution": [row(
        r, 1, 200_000, kernel_ns=115_000,  # 0..max(200, 200); 30 + 35 + 50
        gc_ns=15_000, allocator_ns=5_000,  # 5..15 and 65..70; 15..20, for 12..14 is the collector's
        sync_ns=15_000, other_ns=35_000,  # 60..65 and 70..80; 0..5, 20..25 and 120..145
        launch_ns=15_000)]}  # 25..30, 80..85 and 145..150


def blocking_item() -> Case:
    """`.item()` copies four bytes and waits. The copy is 2 us; the cost is that the device then stands empty until the
    host has caught up. The second `.item()` ends a step: its gap is one gap, and the part in the next step is `sync` as
    well."""
    r = Rank()
    r.step(1, 0, 100_000)
    r.launch(5_000, 10_000, 50_000)
    r.op("aten::item", 20_000, 56_000)
    r.copy("DtoH", 22_000, 50_000, 52_000, stream=COMPUTE)
    r.call("cudaStreamSynchronize", 23_000, 55_000)
    r.launch(75_000, 80_000, 90_000)
    r.op("aten::item", 82_000, 99_000)
    r.copy("DtoH", 84_000, 90_000, 92_000, stream=COMPUTE)
    r.call("cudaStreamSynchronize", 85_000, 95_000)
    r.step(2, 100_000, 160_000)
    r.launch(120_000, 125_000, 160_000)
    return [r], {"attribution": [
        row(r, 1, 100_000, other_ns=5_000,  # 0..max(100, 90); 0..5
            launch_ns=10_000, kernel_ns=50_000,  # 5..10 and 75..80; 40 + 10
            device_to_host_ns=4_000, sync_ns=31_000),  # 2 + 2; 52..75 and 92..100
        row(r, 2, 60_000, sync_ns=20_000,  # 100..max(160, 160); 100..120, the same gap as 92..100
            launch_ns=5_000, kernel_ns=35_000)]}  # 120..125; 125..160


def copies() -> Case:
    """Copies between host and device are input and output; copies and fills on the device are work of the compute side.
    Under a kernel none costs anything. Where several are exposed at once the order is: on the device, host to device,
    device to host."""
    r = Rank()
    r.step(1, 0, 200_000)
    r.launch(5_000, 10_000, 50_000)
    r.copy("Memset", 6_000, 20_000, 30_000, stream=22)  # under the kernel
    r.copy("HtoD", 7_000, 40_000, 70_000, stream=24)
    r.copy("DtoD", 8_000, 60_000, 80_000, stream=COMPUTE)
    r.copy("DtoH", 9_000, 75_000, 100_000, stream=25)
    r.copy("Memset", 11_000, 90_000, 95_000, stream=COMPUTE)
    r.copy("HtoD", 12_000, 95_000, 110_000, stream=24)
    r.launch(120_000, 125_000, 190_000)
    return [r], {"attribution": [row(
        r, 1, 200_000, kernel_ns=105_000, device_copy_ns=25_000,  # 0..max(200, 190); 40 + 65; 60..80 and 90..95
        host_to_device_ns=25_000, device_to_host_ns=10_000,  # 50..60 and 95..110; 80..90, the rest goes to the others
        other_ns=25_000, launch_ns=10_000)]}  # 0..5, 110..120 and 190..200; 5..10 and 120..125


def peer_copy() -> Case:
    """A copy between two devices is communication, whatever its category says; a copy inside one device is not. Its
    record has no `device`, but `fromDevice`, `inDevice` and `toDevice`. Nobody else records it, so it has no split."""
    r = Rank()
    r.step(1, 0, 100_000)
    r.launch(5_000, 10_000, 40_000)
    r.copy("PtoP", 12_000, 30_000, 60_000, stream=26)
    r.copy("DtoD", 13_000, 40_000, 45_000, stream=COMPUTE)  # under the peer copy
    r.launch(50_000, 65_000, 90_000)
    r.copy("DtoD", 51_000, 90_000, 95_000, stream=COMPUTE)
    return [r], {"attribution": [row(
        r, 1, 100_000, kernel_ns=55_000, device_copy_ns=5_000,  # 0..max(100, 90); 30 + 25; 90..95
        unsplit_ns=20_000, hidden_communication=10_000,  # 40..60; 30..40
        kernel_gap_ns=5_000,  # 60..65, launched at 50
        launch_ns=5_000, other_ns=10_000)]}  # 5..10; 0..5 and 95..100


def overlap_on_one_stream() -> Case:
    """Dependent launch and graph branches let kernels of one stream overlap. Adding durations gives 100 us of work in
    80; clipping to the next start destroys real time. The union is right, and nothing is corrupt: the first kernel
    swallows two starts, but is no longer than its like. The nanoseconds are odd on purpose: `round(ts * 1000)`, or
    adding ts and dur as floats, loses one."""
    r = Rank()
    r.step(1, 0, 100_000)
    r.launch(5_000, 10_011, 60_013)
    r.launch(6_000, 50_015, 90_017)
    r.launch(7_000, 55_011, 65_013)
    return [r], {"attribution": [row(
        r, 1, 100_000, kernel_ns=80_006, launch_ns=5_011,  # 0..100_000; 10_011..90_017; 5_000..10_011
        other_ns=14_983)],  # 0..5_000 and 90_017..100_000
        "kernels": [{"name": "gemm", "count": 3, "total_ns": 100_006, "min_ns": 10_002, "max_ns": 50_002}],
        # 50_002 + 40_002 + 10_002
        "run": {"files": [{"rank": 0, "set_aside": 0}]}}


def late_host() -> Case:
    """Exposed communication is not always what holds the device up. Here the next kernel had not even been launched for
    60 of the 80 us; 20 of these the host spent in a blocking call, 40 in Python. Those 40 no overlap returns. In the
    second all-reduce the next kernel was queued: exposed, but the host was not late."""
    r = Rank(0, 2)
    r.step(1, 0, 300_000)
    r.launch(5_000, 10_000, 50_000)
    r.collective("allreduce", 15_000, 50_000, 130_000, 1)
    r.call("cudaEventSynchronize", 40_000, 70_000)
    r.launch(110_000, 130_000, 180_000)
    r.collective("allreduce", 112_000, 180_000, 220_000, 2)
    r.launch(113_000, 220_000, 260_000)
    return [r], {"attribution": [row(
        r, 1, 300_000, kernel_ns=130_000,  # 40 + 50 + 40
        other_ns=45_000, launch_ns=5_000,  # 0..5 and 260..300; 5..10
        unsplit_ns=120_000, host_late=40_000)]}  # 80 + 40, for rank 1's file is missing; 70..110


def cuda_graph() -> Case:
    """One launch starts many kernels: joined one to one, all but the first lose their launch. Inside a graph there are
    no host gaps; and the graph's last kernel, launched in step 1, carries step 1 beyond both marks that follow."""
    r = Rank()
    r.step(1, 0, 50_000)
    r.graph(10_000, (20_000, 60_000, 7), (65_000, 90_000, 7), (70_000, 110_000, 22))
    r.step(2, 50_000, 100_000)
    r.graph(60_000, (120_000, 160_000, 7), (165_000, 200_000, 7))
    return [r], {"attribution": [
        row(r, 1, 110_000, other_ns=10_000, launch_ns=10_000,  # 0..max(50, 110); 0..10; 10..20
            kernel_ns=85_000, kernel_gap_ns=5_000),  # 20..60 and 65..110; 60..65
        row(r, 2, 90_000, kernel_ns=75_000,  # 110..max(100, 200); 40 + 35
            kernel_gap_ns=15_000)]}  # 110..120, launched at 60, and 160..165


def corrupt_event() -> Case:
    """Rank 0 holds a kernel of 3 s that swallows the three after it, and an exact copy of another. Both are set aside:
    the first one's time is unknown, not "until the next start", and the step does not last 3 s. Rank 1 is clean: a
    kernel twelve times as long as its like that swallows one start is legal and is left alone."""
    a, b = Rank(0, 2), Rank(1, 2)
    a.step(1, 0, 120_000)
    for at, start, end in ((5_000, 10_000, 15_000), (6_000, 20_000, 30_000), (7_000, 30_000, 3_000_030_000),
                           (50_000, 60_000, 65_000), (75_000, 80_000, 85_000), (90_000, 95_000, 100_000)):
        a.launch(at, start, end)
    a.events.append([e for e in a.events if e.get("cat") == "kernel"][-1])
    b.step(1, 0, 120_000)
    kernels = (10_000, 15_000), (20_000, 25_000), (30_000, 35_000), (40_000, 100_000), (97_000, 102_000)
    for n, (start, end) in enumerate(kernels):
        b.launch(5_000 + 1_000 * n, start, end)
    return [a, b], {"attribution": [
        row(a, 1, 120_000, kernel_ns=30_000, unexplained_ns=30_000,  # 5 + 10 + 5 + 5 + 5; 30..60
            kernel_gap_ns=5_000, launch_ns=15_000,  # 15..20, launched at 6; 5..10, 75..80 and 90..95
            other_ns=40_000),  # 0..5, 65..75, 85..90 and 100..120
        row(b, 1, 120_000, kernel_ns=77_000, kernel_gap_ns=15_000,  # 5 + 5 + 5 + 62; 15..20, 25..30 and 35..40
            launch_ns=5_000, other_ns=23_000)],  # 5..10; 0..5 and 102..120
        "run": {"files": [{"rank": 0, "set_aside": 2}, {"rank": 1, "set_aside": 0}]}}


def no_step_marks() -> Case:
    """Many traces carry no ProfilerStep. There is then one row, from the first to the last timed event of the process,
    and a warning; not an empty report, and not the profiler's own span, which is wider."""
    r = Rank()
    r.op("aten::empty", 0, 2_000)
    r.launch(5_000, 10_000, 50_000)
    r.launch(60_000, 70_000, 100_000)
    r.op("aten::detach", 105_000, 110_000)
    return [r], {"attribution": [row(
        r, None, 110_000, kernel_ns=70_000, launch_ns=15_000,  # 0..110; 40 + 30; 5..10 and 60..70
        other_ns=25_000)],  # 0..5, 50..60 and 100..110
        "run": {"steps": 0}, "warnings": 1}  # at least one


def orphan_kernels() -> Case:
    """The first kernel was launched before the capture began: it belongs to the row `before`, and step 1 begins when it
    ends. A later kernel without a launch is work all the same, but nobody can say why the device was idle before it."""
    r = Rank()
    r.orphan(80_000, 130_000)
    r.step(1, 100_000, 300_000)
    r.launch(140_000, 150_000, 200_000)
    r.orphan(230_000, 260_000)
    r.launch(250_000, 270_000, 290_000)
    return [r], {"attribution": [
        row(r, "before", 50_000, kernel_ns=50_000),  # 80..130; 80..130
        row(r, 1, 170_000, other_ns=20_000, launch_ns=10_000,  # 130..max(300, 290); 130..140 and 290..300; 140..150
            kernel_ns=100_000, unexplained_ns=30_000,  # 50 + 30 + 20; 200..230
            kernel_gap_ns=10_000)]}  # 260..270, launched at 250
