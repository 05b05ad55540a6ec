from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from kineto_file import write

from rankscope.analyzers.loading import LoadOptions, limits, load_run, reading, workers
from rankscope.analyzers.loading.cache import Cache
from rankscope.analyzers.loading.worker import Reply
from rankscope.analyzers.one_rank.rank_record import RecordOptions

PATCHED = """
import os, signal, time
from rankscope.analyzers.loading import worker
real = worker.readers.read
def read(path, progress=None):
    {body}
    return real(path, progress=progress)
worker.readers.read = read
worker.main()
"""


def patched(monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    """Workers that do this before they read a file."""
    monkeypatch.setattr(workers, "_START", PATCHED.format(body=body))


def read_all(paths: list[Path], jobs: int, cache: Cache | None = None) -> dict[str, Reply]:
    replies: dict[str, Reply] = {}

    def done(path: str, reply: Reply) -> None:
        assert path not in replies
        replies[path] = reply

    workers.each([str(p) for p in paths], jobs, RecordOptions(), cache or Cache(None), done, lambda path, share: None)
    return replies


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    return [write(tmp_path / f"rank{rank}.json", rank, 6) for rank in range(6)]


@pytest.mark.parametrize("jobs", [1, 2, 9])
def test_every_file_has_one_reply_with_its_record(files: list[Path], jobs: int) -> None:
    replies = read_all(files, jobs)
    assert sorted(replies) == [str(f) for f in files]
    assert all(reply.record and reply.reason is None for reply in replies.values())


def test_workers_and_this_process_give_the_same_run(
    files: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [str(tmp_path)]
    here = load_run(paths, LoadOptions(use_cache=False))
    monkeypatch.setattr(reading, "ALONE_BYTES", 0)
    there = load_run(paths, LoadOptions(use_cache=False, jobs=2))
    assert [(r.rank, r.record.meta, r.record.facts, r.record.names) for r in here.ranks] == [
        (r.rank, r.record.meta, r.record.facts, r.record.names) for r in there.ranks
    ]


def test_workers_are_reused_over_files(files: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    patched(monkeypatch, f"open({str(tmp_path / 'pids')!r}, 'a').write(f'{{os.getpid()}} ')")
    read_all(files, 2)
    assert 1 <= len(set((tmp_path / "pids").read_text().split())) <= 2


def test_a_file_whose_worker_dies_once_is_read_again(
    files: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = str(tmp_path / "mark")
    body = f"""if path.endswith('rank3.json') and not os.path.exists({mark!r}):
        open({mark!r}, 'w').close()
        os.kill(os.getpid(), signal.SIGKILL)"""
    patched(monkeypatch, body)
    replies = read_all(files, 2)
    assert len(replies) == 6 and all(reply.record for reply in replies.values())


def test_a_file_that_kills_its_worker_twice_is_named_and_the_others_are_reported(
    files: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    patched(monkeypatch, "if path.endswith('rank3.json'): os.kill(os.getpid(), signal.SIGKILL)")
    monkeypatch.setattr(reading, "ALONE_BYTES", 0)
    run = load_run([str(tmp_path)], LoadOptions(use_cache=False, jobs=2))
    assert [loaded.rank for loaded in run.ranks] == [0, 1, 2, 4, 5]
    (failed,) = run.unreadable
    assert failed.path.endswith("rank3.json") and "killed" in failed.reason
    assert run.missing_ranks == (3,)


def test_an_error_while_reading_is_that_files_reason(files: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    patched(monkeypatch, "if path.endswith('rank3.json'): raise RuntimeError('surprise')")
    replies = read_all(files, 2)
    assert "RuntimeError: surprise" in (replies[str(files[3])].reason or "")
    assert sum(reply.record is not None for reply in replies.values()) == 5


def test_what_is_printed_while_reading_does_not_disturb(files: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    patched(monkeypatch, "print('noise'); os.write(1, b'noise')")
    assert all(reply.record for reply in read_all(files, 2).values())


def test_where_no_worker_can_start_files_are_read_here(files: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_START", "raise SystemExit(3)")
    replies = read_all(files, 2)
    assert len(replies) == 6 and all(reply.record for reply in replies.values())


def test_a_worker_starts_without_data_frames_or_terminal_libraries() -> None:
    code = "import sys, rankscope.analyzers.loading.worker; print([m for m in ('pandas', 'rich') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


STUCK = """
import sys
from rankscope.analyzers.loading import reading, workers
from rankscope.ui import cli
reading.ALONE_BYTES = 0
workers._START = '''
import time
from rankscope.analyzers.loading import cache, worker
def stuck(*args):
    print(flush=True)
    time.sleep(600)
cache._Entry.write = stuck
worker.main()
'''
sys.exit(cli.main(sys.argv[1:]))
"""


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_being_ended_leaves_no_process_and_no_unfinished_file(
    files: list[Path], tmp_path: Path, number: int, status: int
) -> None:
    cache = tmp_path / "cache"
    command = [sys.executable, "-c", STUCK, "report", *map(str, files), "--jobs", "2", "--cache-dir", str(cache)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=hear_signals
    )
    until(lambda: cache.is_dir() and len(list(cache.glob(".writing-*"))) == 2)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    assert len(children) == 2
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert process.returncode == status and out == ""
    assert err == ("rankscope: interrupted\n" if number == signal.SIGINT else "")
    assert [pid for pid in children if alive(pid)] == []
    assert list(cache.glob(".writing-*")) == []


def hear_signals() -> None:
    """What runs the tests may ignore them, as nohup does, and whoever is started from there would as well."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)


def test_workers_end_with_a_parent_that_is_killed(files: list[Path], tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    command = [sys.executable, "-c", STUCK, "report", *map(str, files), "--jobs", "2", "--cache-dir", str(cache)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until(lambda: cache.is_dir() and len(list(cache.glob(".writing-*"))) == 2)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    process.kill()
    process.wait()
    until(lambda: not any(alive(pid) for pid in children))


def until(true: object, seconds: float = 30) -> None:
    """Wait for it; fail when it does not come."""
    end = time.monotonic() + seconds
    while not true():  # type: ignore[operator]
        assert time.monotonic() < end
        time.sleep(0.02)


def alive(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


# ---- how many --------------------------------------------------------------------------------------------------------


def machine(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


GIB = 1 << 30


def test_workers_are_no_more_than_asked_for_than_files_and_than_memory_allows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = machine(tmp_path, {"proc/meminfo": f"MemTotal: 1 kB\nMemAvailable: {4 * GIB // 1024} kB\n"})
    monkeypatch.setattr(limits.os, "sched_getaffinity", lambda pid: range(64))
    assert limits.jobs(None, [1] * 100, root) == int(4 * GIB / limits.WORKER_BYTES)
    assert limits.jobs(3, [1] * 100, root) == 3
    assert limits.jobs(None, [1] * 5, root) == 5
    assert limits.jobs(None, [2 * GIB] * 8, root) == 2
    assert limits.jobs(None, [100 * GIB] * 8, root) == 1


def test_quota_and_limit_of_every_cgroup_above_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits.os, "sched_getaffinity", lambda pid: range(64))
    root = machine(
        tmp_path,
        {
            "proc/self/cgroup": "0::/job/step\n",
            "proc/meminfo": f"MemAvailable: {100 * GIB // 1024} kB\n",
            "sys/fs/cgroup/job/step/cpu.max": "max 100000\n",
            "sys/fs/cgroup/job/cpu.max": "250000 100000\n",
            "sys/fs/cgroup/job/memory.max": f"{8 * GIB}\n",
            "sys/fs/cgroup/job/memory.current": f"{7 * GIB}\n",
            "sys/fs/cgroup/job/memory.stat": f"anon 1\ninactive_file {GIB}\n",
            "sys/fs/cgroup/job/step/memory.max": "max\n",
        },
    )
    assert limits.cpus(root) == 3
    assert limits.memory_bytes(root) == 2 * GIB


def test_cgroups_of_the_first_version_count_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits.os, "sched_getaffinity", lambda pid: range(64))
    root = machine(
        tmp_path,
        {
            "proc/self/cgroup": "5:memory:/job\n4:cpu,cpuacct:/job\n1:name=systemd:/\n",
            "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us": "100000\n",
            "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us": "100000\n",
            "sys/fs/cgroup/memory/job/memory.limit_in_bytes": f"{GIB}\n",
            "sys/fs/cgroup/memory/job/memory.usage_in_bytes": "0\n",
        },
    )
    assert limits.cpus(root) == 1
    assert limits.memory_bytes(root) == GIB


def test_a_machine_that_says_nothing_does_not_bound(tmp_path: Path) -> None:
    assert limits.memory_bytes(tmp_path) is None
    assert limits.cpus(tmp_path) == len(os.sched_getaffinity(0))


def test_the_size_of_a_compressed_file_is_estimated_from_its_trailer(tmp_path: Path) -> None:
    plain, packed = write(tmp_path / "a.json", steps=5000), write(tmp_path / "a.json.gz", steps=5000)
    assert limits.raw_size(str(plain)) == plain.stat().st_size
    assert limits.raw_size(str(packed)) == pytest.approx(plain.stat().st_size, rel=0.01)
    assert limits.raw_size(str(tmp_path / "absent")) == 0
