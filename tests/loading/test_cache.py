from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from corpus import corpus
from kineto_file import write

from rankscope.analyzers.loading import LoadOptions, cache, load_run, worker
from rankscope.analyzers.loading.cache import Cache
from rankscope.analyzers.one_rank.rank_record import RecordOptions
from rankscope.analyzers.run import Run

DEFAULT = RecordOptions()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write(tmp_path / "rank0.json")


def entries(folder: Path, ending: str = "") -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.name.endswith(ending))


def contents(run: Run) -> Iterator[object]:
    """All of a run, down to the bytes of the columns."""
    yield msgspec.json.encode([run.id, run.world_size, run.missing_ranks, run.other_runs, run.warnings])
    for loaded in run.ranks:
        record = loaded.record
        yield loaded.rank, loaded.rank_source, loaded.path, record.meta, record.facts, record.names
        for kind, table in record.tables.items():
            yield kind, [(n, a.dtype, a.tobytes()) for n, a in table.columns.items()]
            yield [(n, m.tobytes()) for n, m in sorted(table.masks.items())]


def load(paths: list[Path], folder: Path | None) -> Run:
    return load_run([str(p) for p in paths], LoadOptions(use_cache=folder is not None, cache_folder=str(folder)))


def test_a_second_load_reads_no_trace(folder: Path, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = load([file], folder)
    monkeypatch.setattr(worker.readers, "read", lambda path, **_: pytest.fail("read again"))
    monkeypatch.setattr(worker.readers, "head", lambda path: pytest.fail("looked at again"))
    assert list(contents(load([file], folder))) == list(contents(first))


def test_the_record_is_enough_and_the_columns_are_enough(
    folder: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = load([file], folder)
    monkeypatch.setattr(worker.readers, "read", lambda path, **_: pytest.fail("read again"))
    (record,), (columns,) = entries(folder, ".record"), entries(folder, ".trace")
    kept = columns.read_bytes()
    columns.unlink()
    assert list(contents(load([file], folder))) == list(contents(first))
    record.unlink()
    columns.write_bytes(kept)
    assert list(contents(load([file], folder))) == list(contents(first))


@pytest.mark.parametrize("where", ["kineto-dlrm-8rank", "gloo-4rank/fsdp_slow_rank", "hta/rank0.json.gz", "tracelens"])
def test_cold_and_warm_are_equal_to_the_bit_on_real_traces(where: str, folder: Path) -> None:
    without, cold, warm = (list(contents(load([corpus(where)], at))) for at in (None, folder, folder))
    assert without == cold == warm


@pytest.mark.parametrize("change", ["text", "middle", "times"])
def test_a_changed_file_is_read_again(folder: Path, tmp_path: Path, change: str) -> None:
    file = write(tmp_path / "rank0.json", steps=2000)
    before = os.stat(file)
    load([file], folder)
    text = file.read_text()
    if change == "times":
        write(file, steps=2000, kernel_ns=400_000)
    elif change == "middle":  # same size, same ends, same time of change
        middle = text.index('"gemm"', len(text) // 2)
        file.write_text(text[:middle] + '"gems"' + text[middle + 6 :])
    else:
        file.write_text(text.replace("gemm", "gems"))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert list(contents(load([file], folder))) == list(contents(load([file], None)))


def test_other_code_or_other_options_make_other_entries(
    folder: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load([file], folder)
    load_run([str(file)], LoadOptions(cache_folder=str(folder), record=RecordOptions(communication=("gemm",))))
    assert len(entries(folder, ".record")) == 2 and len(entries(folder, ".trace")) == 1
    monkeypatch.setattr(worker, "source_digest", lambda *patterns: "0" * 16)
    load([file], folder)
    assert len(entries(folder, ".record")) == 3 and len(entries(folder, ".trace")) == 2


def test_source_digest_covers_the_text_of_every_module_it_is_asked_for() -> None:
    reader, all_modules = cache.source_digest("trace/**/*.py"), cache.source_digest("trace/**/*.py", "*.py")
    assert reader != all_modules != cache.source_digest("*.py")
    assert cache.source_digest("trace/**/*.py") == reader


@pytest.mark.parametrize("ending", [".head", ".record", ".trace"])
@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "other"])
def test_a_damaged_entry_is_made_anew(folder: Path, file: Path, ending: str, damage: str) -> None:
    right = list(contents(load([file], folder)))
    (entry,) = entries(folder, ending)
    whole = entry.read_bytes()
    flipped = bytearray(whole)
    flipped[-len(whole) // 3] ^= 1
    entry.write_bytes({"cut": whole[:-9], "flipped": bytes(flipped), "empty": b"", "other": b"{}" * 500}[damage])
    if ending == ".trace":
        entries(folder, ".record")[0].unlink()
    assert list(contents(load([file], folder))) == right
    assert entry.read_bytes() == whole


def test_the_folder_and_its_entries_are_private(folder: Path, file: Path) -> None:
    load([file], folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}


def foreign(folder: Path) -> None:
    folder.mkdir()
    os.chown(folder, 12345, 12345)


def writable_by_others(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o777)


def linked(folder: Path) -> None:
    (folder.parent / "elsewhere").mkdir()
    folder.symlink_to(folder.parent / "elsewhere")


def no_folder(folder: Path) -> None:
    folder.write_text("")


@pytest.mark.parametrize("spoil", [foreign, writable_by_others, linked, no_folder])
def test_a_folder_that_cannot_be_trusted_is_not_used_and_said_once(folder: Path, file: Path, spoil: object) -> None:
    if spoil is foreign and os.geteuid():
        pytest.skip("only root can give a folder away")
    spoil(folder)  # type: ignore[operator]
    run = load([file, write(file.parent / "rank1.json", 1)], folder)
    assert [w for w in run.warnings if "cache" in w] == [w for w in run.warnings if str(folder) in w]
    assert len([w for w in run.warnings if "cache" in w]) == 1
    assert [loaded.rank for loaded in run.ranks] == [0, 1]
    assert not folder.is_dir() or not list(folder.iterdir())


def test_a_full_disk_costs_one_warning_and_leaves_nothing(
    folder: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cache.os, "write", full)
    run = load([file, write(file.parent / "rank1.json", 1)], folder)
    assert len([w for w in run.warnings if "No space left" in w]) == 1
    assert len(run.ranks) == 2 and not list(folder.iterdir())


def test_an_interrupted_entry_leaves_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(descriptor: int, data: bytes) -> int:
        raise KeyboardInterrupt

    kept = Cache(str(folder))
    monkeypatch.setattr(cache.os, "write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        kept.write("a.record", [b"text"])
    assert not list(folder.iterdir())


def test_the_least_recently_used_entries_go_when_the_cap_is_passed(folder: Path) -> None:
    kept = Cache(str(folder), cap_bytes=250)
    for age, name in enumerate(("a.record", "b.record")):
        kept.write(name, [b"x" * 100])
        os.utime(folder / name, (1000 + age, 1000 + age))
    assert kept.read("a.record") is not None  # now the newer one
    kept.write("c.record", [b"x" * 100])
    assert [path.name for path in entries(folder)] == ["a.record", "c.record"]


def test_an_entry_larger_than_the_cap_is_not_kept(folder: Path) -> None:
    kept = Cache(str(folder), cap_bytes=50)
    kept.write("a.record", [b"x" * 100])
    assert not list(folder.iterdir()) and kept.problem is None


def test_what_a_dead_process_left_unfinished_is_swept_up(folder: Path) -> None:
    kept = Cache(str(folder))
    for name in (".writing-77-a", ".writing-78-a"):
        (folder / name).write_text("half")
    kept.sweep(77)
    assert [path.name for path in entries(folder)] == [".writing-78-a"]
    os.utime(folder / ".writing-78-a", (1000, 1000))
    kept.write("a.record", [b"text"])
    assert [path.name for path in entries(folder)] == ["a.record"]


def test_an_entry_that_is_a_link_is_not_followed(folder: Path, tmp_path: Path) -> None:
    kept = Cache(str(folder))
    (tmp_path / "secret").write_text("secret")
    (folder / "a.record").symlink_to(tmp_path / "secret")
    assert kept.read("a.record") is None


def test_the_default_folder_follows_xdg_and_ignores_a_relative_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    assert cache.default_folder() == "/x/rankscope"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", "/h")
    assert cache.default_folder() == "/h/.cache/rankscope"
