"""Host, fabric, clocks, NCCL, memory snapshots, loaders and checkpoints: what each records, and when it is skipped."""

from __future__ import annotations

import io
import os
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from recorded import lines, one

import rankscope
from rankscope.analyzers.pulse.readers.pings import read_pings
from rankscope.collector.board import FileBoard
from rankscope.collector.probe import Unavailable
from rankscope.collector.probes.clock import Clock
from rankscope.collector.probes.host import Host
from rankscope.collector.probes.infiniband import Infiniband
from rankscope.collector.probes.memory_snapshot import MOST, MemorySnapshot
from rankscope.collector.probes.nccl_log import NcclLog
from rankscope.collector.run_dir import line as run_dir_line
from rankscope.collector.run_dir import rank_folder
from rankscope.collector.stages import StageClock


class Records:
    """Keeps lines and events."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []
        self.events: list[dict[str, Any]] = []

    def append(self, file: str, record: dict[str, Any]) -> None:
        self.lines.append({"file": file, **record})

    def event(self, kind: str, **what: object) -> None:
        self.events.append({"kind": kind, **what})


def place(tmp_path: Path, rank: int = 0, local_rank: int | None = 0) -> Any:
    folder = rank_folder(tmp_path, rank, f"{rank:08x}")
    Path(folder.path).mkdir(parents=True, exist_ok=True)
    options = SimpleNamespace(run_dir=str(tmp_path), settings=lambda name, default: {})
    return SimpleNamespace(
        folder=folder, records=Records(), options=options, clock=StageClock(), rank=rank, local_rank=local_rank, step=3,
        guard=lambda name, function: function,
    )  # fmt: skip


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


# ---- InfiniBand ------------------------------------------------------------------------------------------------------


def test_ports_are_read_with_the_counters_they_have(tmp_path: Path) -> None:
    write(tmp_path / "sys", {
        "mlx5_0/ports/1/counters/port_xmit_data": "1000\n", "mlx5_0/ports/1/counters/link_downed": "2\n",
        "mlx5_0/ports/1/hw_counters/out_of_sequence": "5\n", "mlx5_1/ports/1/counters/port_rcv_data": "7\n",
        "mlx5_1/ports/1/counters/symbol_error": "N/A (no PMA)\n",
    })  # fmt: skip
    at = place(tmp_path)
    probe = Infiniband(root=str(tmp_path / "sys"))
    probe.start(at)
    probe.flushed()
    probe.flushed()  # within five seconds: no second sample
    (sample,) = at.records.lines
    assert sample["file"] == "infiniband.jsonl"
    assert sample["ports"] == [
        {"port": "mlx5_0/1", "sent_bytes": 4000, "link_downs": 2, "out_of_sequence": 5},  # words of four bytes
        {"port": "mlx5_1/1", "received_bytes": 28},
    ]


@pytest.mark.parametrize(("local_rank", "why"), [(0, "no InfiniBand device"), (1, "local rank 0 samples")])
def test_without_a_port_or_beside_another_rank_infiniband_is_skipped(tmp_path: Path, local_rank: int, why: str) -> None:
    with pytest.raises(Unavailable, match=why):
        Infiniband(root=str(tmp_path / "none")).start(place(tmp_path, local_rank=local_rank))


# ---- NCCL ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def nccl(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in [name for name in os.environ if name.startswith("NCCL_")]:
        monkeypatch.delenv(name)
    return monkeypatch


def test_nccl_writes_its_log_only_for_those_who_asked(tmp_path: Path, nccl: pytest.MonkeyPatch) -> None:
    probe = NcclLog(device_file=os.devnull)
    probe.start(place(tmp_path))
    assert os.environ.get("NCCL_TOPO_DUMP_FILE", "").endswith("nccl-topology.xml")
    assert "NCCL_DEBUG_FILE" not in os.environ and "NCCL_DEBUG" not in os.environ
    probe.stop()
    assert "NCCL_TOPO_DUMP_FILE" not in os.environ
    nccl.setenv("NCCL_DEBUG", "INFO")
    probe = NcclLog(device_file=os.devnull)
    probe.start(place(tmp_path, rank=1, local_rank=1))
    assert os.environ["NCCL_DEBUG_FILE"].endswith(os.path.join("00001-00000001", "nccl-debug.txt"))
    assert "NCCL_TOPO_DUMP_FILE" not in os.environ  # one rank a host is enough
    probe.stop()


def test_what_the_user_set_for_nccl_stays(tmp_path: Path, nccl: pytest.MonkeyPatch) -> None:
    nccl.setenv("NCCL_DEBUG_FILE", "mine")
    nccl.setenv("NCCL_TOPO_DUMP_FILE", "mine too")
    probe = NcclLog(debug="WARN", device_file=os.devnull)
    probe.start(place(tmp_path))
    assert os.environ["NCCL_DEBUG"] == "WARN"
    assert (os.environ["NCCL_DEBUG_FILE"], os.environ["NCCL_TOPO_DUMP_FILE"]) == ("mine", "mine too")
    probe.stop()
    assert "NCCL_DEBUG" not in os.environ and os.environ["NCCL_DEBUG_FILE"] == "mine"


def test_without_a_device_nccl_is_skipped(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="no NVIDIA device"):
        NcclLog(device_file=str(tmp_path / "none")).start(place(tmp_path))


# ---- CUDA memory, with a stand-in for torch --------------------------------------------------------------------------


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    seen: dict[str, Any] = {"history": []}
    memory = SimpleNamespace(
        _dump_snapshot=lambda path: Path(path).write_text("snapshot"),
        _record_memory_history=lambda **how: seen["history"].append(how),
    )
    torch = SimpleNamespace(
        cuda=SimpleNamespace(is_available=lambda: True, memory=memory),
        _C=SimpleNamespace(_cuda_attachOutOfMemoryObserver=lambda observer: seen.update(observer=observer)),
    )
    monkeypatch.setitem(sys.modules, "torch", torch)  # type: ignore[arg-type]
    return seen


def test_running_out_of_memory_leaves_a_snapshot_and_no_more_than_three(tmp_path: Path, cuda: dict[str, Any]) -> None:
    at = place(tmp_path)
    probe = MemorySnapshot()
    probe.start(at)
    for step in range(MOST + 2):
        at.step = step
        cuda["observer"](0, 1 << 30, 80 << 30, 1 << 20)
    files = sorted(path.name for path in Path(at.folder.path).glob("memory-*"))
    assert files == ["memory-oom-0.pickle", "memory-oom-1.pickle", "memory-oom-2.pickle"]
    assert at.records.events[0] == {
        "kind": "memory_snapshot", "why": "oom", "file": "memory-oom-0.pickle", "device": 0, "wanted_bytes": 1 << 30,
        "total_bytes": 80 << 30, "free_bytes": 1 << 20,
    }  # fmt: skip
    assert cuda["history"] == []
    probe.stop()
    cuda["observer"](0, 1, 2, 3)  # PyTorch cannot take it away again
    assert len(at.records.events) == MOST


def test_a_memory_snapshot_can_be_asked_for(tmp_path: Path, cuda: dict[str, Any]) -> None:
    at = place(tmp_path)
    probe = MemorySnapshot(history=1000)
    probe.start(at)
    (tmp_path / "request-memory").touch()
    probe.flushed()
    probe.flushed()
    probe.stop()
    assert [event["file"] for event in at.records.events] == ["memory-request-3.pickle"]
    assert cuda["history"] == [{"max_entries": 1000}, {"enabled": None}]


def test_without_cuda_there_is_no_snapshot(tmp_path: Path, cuda: dict[str, Any]) -> None:
    sys.modules["torch"].cuda.is_available = lambda: False
    with pytest.raises(Unavailable, match="no CUDA device"):
        MemorySnapshot().start(place(tmp_path))


# ---- host ------------------------------------------------------------------------------------------------------------


def test_the_host_is_sampled_as_shares_since_the_last_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    proc, groups = tmp_path / "proc", tmp_path / "cgroup"
    thread = threading.main_thread().native_id
    write(proc, {
        "stat": "cpu  100 0 100 600 100 0 0 100\n", "loadavg": "3.5 1 1 1/1 1\n", "self/cgroup": "0::/job\n",
        f"self/task/{thread}/schedstat": "5 1000000000 9\n", "self/io": "read_bytes: 1000\nwrite_bytes: 0\n",
        "pressure/io": "some avg10=12.50 avg60=0 avg300=0 total=1\nfull avg10=99 avg60=0 avg300=0 total=1\n",
        "meminfo": "MemTotal: 10 kB\nMemAvailable: 4 kB\n",
    })  # fmt: skip
    write(groups, {"job/cpu.stat": "usage_usec 5\nthrottled_usec 1000000\n"})
    now = [100.0]
    monkeypatch.setattr("rankscope.collector.probes.host.time", SimpleNamespace(monotonic=lambda: now[0], time_ns=lambda: 1))
    at = place(tmp_path)
    probe = Host(root=str(proc), cgroup=str(groups))
    probe.start(at)
    now[0] += 2.0
    write(proc, {"stat": "cpu  200 0 200 900 150 0 0 150\n", f"self/task/{thread}/schedstat": "5 2000000000 9\n",
                 "self/io": "read_bytes: 5000\nwrite_bytes: 0\n"})  # fmt: skip
    write(groups, {"job/cpu.stat": "usage_usec 5\nthrottled_usec 1500000\n"})
    probe.flushed()
    probe.flushed()  # no time has passed
    (sample,) = at.records.lines
    expected = {
        "host_busy_share": 1 - 350 / 600, "host_io_wait_share": 50 / 600, "host_steal_share": 50 / 600,
        "waiting_share": 0.5, "throttled_share": 0.25, "read_bytes_per_s": 2000.0, "written_bytes_per_s": 0.0, "load": 3.5,
        "io_pressure_share": 0.125, "memory_available_bytes": 4096,
    }  # fmt: skip
    assert {key: sample[key] for key in expected} == pytest.approx(expected, abs=1e-6)  # six digits are kept
    assert "cpu_pressure_share" not in sample


def test_a_busy_process_is_seen_as_busy(tmp_path: Path) -> None:
    if not os.path.exists("/proc/stat"):
        pytest.skip("this system has no /proc")
    at = place(tmp_path)
    probe = Host()
    probe.start(at)
    used, until = time.process_time(), time.monotonic() + 20
    while time.process_time() - used < 0.3 and time.monotonic() < until:
        sum(range(1000))
    probe.flushed()
    (sample,) = at.records.lines
    assert sample["cpu_share"] > 0 and 0 < sample["host_busy_share"] <= 1


# ---- clocks ----------------------------------------------------------------------------------------------------------


def clocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **asker: Any) -> tuple[Any, list[Clock]]:
    """Rank 0 answers and rank 1 asks, over this machine's own network."""
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setattr("rankscope.collector.board.store_board", lambda prefix: None)
    monkeypatch.setattr("rankscope.collector.board.file_board", lambda *_: FileBoard(str(tmp_path / "clock")))
    probes = [Clock(same_host=True), Clock(**{"same_host": True, **asker})]
    at = [place(tmp_path, rank=rank, local_rank=rank) for rank in (0, 1)]
    for rank, probe in enumerate(probes):
        monkeypatch.setenv("RANK", str(rank))
        monkeypatch.setenv("LOCAL_RANK", str(rank))
        probe.start(at[rank])
    return at[1], probes


def test_pings_bound_how_far_two_clocks_are_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at, probes = clocks(tmp_path, monkeypatch, every_s=0.1)
    until = time.monotonic() + 30
    while len(at.records.lines) < 2 and time.monotonic() < until:
        time.sleep(0.05)
    for probe in probes:
        probe.stop()
    for line in at.records.lines[:2]:
        assert line["file"] == "clock.jsonl" and line["peer_rank"] == 0 and line["pings"] == 16
        assert line["ahead_least_ns"] <= 0 <= line["ahead_most_ns"]  # one clock
        # the bounds are no further apart than the fastest ping took
        assert line["ahead_most_ns"] - line["ahead_least_ns"] <= line["round_trip_ns"]
    (tmp_path / "clock.jsonl").write_text("".join(run_dir_line(line) for line in at.records.lines))
    read, problems = read_pings(str(tmp_path / "clock.jsonl"))
    assert len(read) == len(at.records.lines) and not problems
    assert (abs(read.ahead_ns) <= read.round_trip_ns // 2 + 1).all()


def test_a_clock_that_is_ahead_is_found_ahead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ahead_ns = 5_000_000_000
    real = time.time_ns

    def shifted() -> int:
        return real() + (ahead_ns if threading.current_thread().name == "rankscope-clock-asks" else 0)

    monkeypatch.setattr("rankscope.collector.probes.clock.time.time_ns", shifted)
    at, probes = clocks(tmp_path, monkeypatch, every_s=60.0)
    until = time.monotonic() + 30
    while not at.records.lines and time.monotonic() < until:
        time.sleep(0.05)
    for probe in probes:
        probe.stop()
    line = at.records.lines[0]
    assert line["ahead_least_ns"] <= ahead_ns <= line["ahead_most_ns"]


def test_ranks_of_one_host_open_no_port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable, value in (("WORLD_SIZE", "2"), ("LOCAL_WORLD_SIZE", "2"), ("RANK", "0"), ("LOCAL_RANK", "0")):
        monkeypatch.setenv(variable, value)
    with pytest.raises(Unavailable, match="on one host"):
        Clock().start(place(tmp_path))


def test_one_process_has_one_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with pytest.raises(Unavailable, match="one clock"):
        Clock().start(place(tmp_path))


# ---- loaders and checkpoints, with torch -----------------------------------------------------------------------------


def quiet(run: Path) -> Any:
    """A session that watches only what is tested here."""
    others = ("torch_profiler", "nvml", "clock", "host", "hang", "infiniband", "nccl_log", "flight_recorder")
    return rankscope.profile(run, probes=dict.fromkeys(others, False))


def test_fetching_is_told_from_collating_without_workers(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed (extra `train`)")

    class Slow(torch.utils.data.Dataset):  # type: ignore[misc,name-defined]
        def __len__(self) -> int:
            return 8

        def __getitem__(self, index: int) -> int:
            time.sleep(0.004)
            return index

    def collate(samples: list[int]) -> list[int]:
        time.sleep(0.002)
        return samples

    with quiet(tmp_path) as p:
        p.step()  # probes that need torch begin at the end of the first step
        for _ in torch.utils.data.DataLoader(Slow(), batch_size=2, collate_fn=collate):
            p.step()
    loaders = [line["loader"] for line in one(tmp_path).pulse if "loader" in line]
    assert [loader["batches"] for loader in loaders[:4]] == [1] * 4
    for loader in loaders[:4]:  # two samples of 4 ms, one batch of 2 ms: a sleep is never shorter
        assert loader["workers"] == 0 and "ready" not in loader
        assert loader["fetch_ns"] >= 8_000_000 and loader["collate_ns"] >= 2_000_000
        assert loader["wait_ns"] >= loader["fetch_ns"] + loader["collate_ns"]


def test_a_loader_with_workers_shows_what_lay_ready(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed (extra `train`)")
    with quiet(tmp_path) as p:
        p.step()
        batches = iter(torch.utils.data.DataLoader(list(range(8)), batch_size=1, num_workers=1, prefetch_factor=3))
        for _ in range(3):
            next(batches)
            until = time.monotonic() + 20
            while batches._data_queue.qsize() < 3 and time.monotonic() < until:
                time.sleep(0.01)
            p.step()
        for _ in batches:
            pass
    loaders = [line["loader"] for line in one(tmp_path).pulse if "loader" in line]
    assert [loader["ready"] for loader in loaders[1:3]] == [3, 3]
    assert loaders[1]["workers"] == 1 and "fetch_ns" not in loaders[1]


def test_a_saved_file_is_an_event_with_its_bytes(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed (extra `train`)")
    with quiet(tmp_path / "run") as p:
        p.step()
        torch.save({"x": torch.zeros(1000)}, tmp_path / "model.pt")
        buffer = io.BytesIO(b"before")
        buffer.seek(6)
        torch.save({"x": torch.zeros(1000)}, buffer)
        p.step()
    path, memory = [event for event in one(tmp_path / "run").events if event["kind"] == "checkpoint_written"]
    assert path["bytes"] == (tmp_path / "model.pt").stat().st_size
    assert memory["bytes"] == len(buffer.getvalue()) - 6
    assert path["what"] == "save" and path["asynchronous"] is False and path["blocked_ns"] > 0


def test_a_distributed_checkpoint_is_counted_with_this_ranks_files(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed (extra `train`)")
    import torch.distributed.checkpoint as dcp

    with quiet(tmp_path / "run") as p:
        p.step()
        dcp.save({"x": torch.zeros(1000)}, checkpoint_id=tmp_path / "saved", no_dist=True)
        dcp.load({"x": torch.ones(1000)}, checkpoint_id=tmp_path / "saved", no_dist=True)
        p.step()
    saved, loaded = [event for event in one(tmp_path / "run").events if event["kind"] == "checkpoint_written"]
    files = sum(path.stat().st_size for path in (tmp_path / "saved").glob("__0_*"))
    assert (saved["what"], saved["bytes"]) == ("save", files)
    assert loaded["what"] == "load"


def test_the_patched_places_are_put_back(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed (extra `train`)")
    before = torch.save, torch.utils.data._utils.fetch._MapDatasetFetcher.fetch
    with quiet(tmp_path) as p:
        p.step()
        assert torch.save is not before[0]
    assert (torch.save, torch.utils.data._utils.fetch._MapDatasetFetcher.fetch) == before


def test_the_hosts_samples_reach_the_run_directory(tmp_path: Path) -> None:
    if not os.path.exists("/proc/stat"):
        pytest.skip("this system has no /proc")
    with rankscope.profile(tmp_path) as p:
        time.sleep(0.3)
        p.step()
    found = one(tmp_path)
    assert found.manifest.probes["host"] == "on"
    assert all(sample["host_busy_share"] <= 1 for sample in lines(found.folder / "host.jsonl"))
    assert lines(found.folder / "host.jsonl")
