"""The deep tier: windows of the profiler, at the same steps on all ranks, whole and bounded."""

from __future__ import annotations

import gzip
import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
from recorded import SCRIPTS, Recorded, one, recorded, torchrun

import rankscope
from rankscope.collector import aside, windows
from rankscope.collector.board import FileBoard, StoreBoard, file_board
from rankscope.collector.change import RECENT, REFERENCE, Change
from rankscope.collector.request import Watch
from rankscope.collector.run_dir import rank_folder
from rankscope.collector.windows import Schedule, Window, Windows, schedule_of

MARK = re.compile(r"ProfilerStep#(\d+)\Z")


class Records:
    """Keeps events."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    def append(self, file: str, record: Any) -> None:
        raise AssertionError(file)

    def event(self, kind: str, **what: object) -> None:
        self.events.append({"kind": kind, **what})


# ---- real ranks ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("torch", reason="torch is not installed (extra `train`)")
    root = tmp_path_factory.mktemp("windows")
    done = torchrun(2, SCRIPTS / "windowed.py", root)
    assert done.returncode == 0, done.stderr[-3000:]
    return root


def traced(rank: Recorded) -> dict[str, list[int]]:
    """The steps that each trace marks."""
    found = {}
    for path in sorted((rank.folder / "traces").iterdir()):
        trace = json.loads(gzip.decompress(path.read_bytes()))
        marks = [MARK.match(event.get("name", "")) for event in trace["traceEvents"] if event.get("ph") == "X"]
        found[path.name] = sorted({int(mark[1]) for mark in marks if mark})
        assert trace.get("distributedInfo", {"rank": 0})["rank"] == rank.manifest.rank
    return found


def of_kind(rank: Recorded, kind: str) -> list[dict[str, Any]]:
    return [event for event in rank.events if event["kind"] == kind]


def test_a_schedule_opens_windows_of_its_steps_on_all_ranks(job: Path) -> None:
    ranks = recorded(job / "schedule")
    assert len(ranks) == 2
    for rank in ranks:
        assert rank.manifest.probes["torch_profiler"] == "on"
        assert traced(rank) == {
            "steps-00000004-00000005.json.gz": [4, 5], "steps-00000012-00000013.json.gz": [12, 13],
        }  # fmt: skip
        assert [(event["first"], event["last"]) for event in of_kind(rank, "window")] == [(4, 5), (12, 13)]
        assert all(event["bytes"] > 0 and event["cost_ns"]["end"] > 0 for event in of_kind(rank, "window"))
        assert [path.name for path in rank.folder.rglob("*.part")] == []


def test_a_window_holds_the_events_of_its_steps_and_of_no_others(job: Path) -> None:
    folder = recorded(job / "schedule")[0].folder / "traces"
    spans = []
    for path in sorted(folder.iterdir()):
        trace = json.loads(gzip.decompress(path.read_bytes()))
        ops = [e for e in trace["traceEvents"] if e.get("ph") == "X" and "c10d::allreduce_" in e.get("name", "")]
        assert len(ops) == 2  # one a step
        spans.append((min(e["ts"] for e in ops), max(e["ts"] for e in ops)))
    assert spans[0][1] < spans[1][0]


@pytest.mark.parametrize(("kind", "why"), [("request", "request"), ("change", "change: the step's median went from")])
def test_ranks_agree_through_the_store_on_the_steps_of_a_window(job: Path, kind: str, why: str) -> None:
    first, second = recorded(job / kind)
    opened = [[(e["first"], e["last"], e["agreed_by"]) for e in of_kind(r, "window")] for r in (first, second)]
    assert len(opened[0]) == 1 and opened[0] == opened[1]
    assert opened[0][0][2] == "store"
    assert list(traced(first).values()) == list(traced(second).values())
    assert of_kind(first, "window")[0]["why"].startswith(why)


def test_a_request_says_how_many_steps(job: Path) -> None:
    (window,) = of_kind(recorded(job / "request")[1], "window")
    assert window["last"] - window["first"] == 1


def test_the_whole_run_is_one_bounded_window(job: Path) -> None:
    for rank in recorded(job / "full"):
        assert list(traced(rank).values()) == [[1, 2, 3, 4, 5, 6, 7, 8]]


def test_no_window_opens_by_itself_in_a_steady_pulse(job: Path) -> None:
    # the request's run has 330 even steps, and one window that was asked for
    assert all(len(of_kind(rank, "window")) == 1 for rank in recorded(job / "request"))


# ---- one process -----------------------------------------------------------------------------------------------------


def alone(run: Path, *, steps: int, at: dict[int, Any] | None = None, **settings: Any) -> Recorded:
    """A session of its own around some operations; `at`: what the program does beside them in which step."""
    torch = pytest.importorskip("torch", reason="torch is not installed (extra `train`)")
    others = ("nvml", "clock", "hang", "flight_recorder", "infiniband", "nccl_log", "memory_snapshot")
    probes = {"torch_profiler": {"changes": False, **settings}, **dict.fromkeys(others, False)}
    with rankscope.profile(run, mode="window", windows={"first": 2, "steps": 2, "every": 5}, probes=probes) as p:
        for step in range(steps):
            torch.ones(8) @ torch.ones(8)
            time.sleep(0.002)  # traces are cut to their windows as finely as clocks agree: 0.2 ms
            if at and step in at:
                at[step]()
            p.step()
    return one(run)


@pytest.mark.parametrize("settings", [{}, {"write_now": True}, {"write_now": True, "fork": False}, {"fork": False}])
def test_traces_are_the_same_however_they_are_written(tmp_path: Path, settings: dict[str, Any]) -> None:
    found = alone(tmp_path, steps=10, **settings)
    assert list(traced(found).values()) == [[2, 3], [7, 8]]
    for path in (found.folder / "traces").iterdir():
        trace = json.loads(gzip.decompress(path.read_bytes()))
        assert sum(event.get("name") == "aten::dot" for event in trace["traceEvents"]) == 2
    assert found.manifest.probes["torch_profiler"] == "on"


@pytest.mark.parametrize("step", [3, 5])
def test_a_profiler_of_the_programs_own_goes_first(tmp_path: Path, step: int) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed (extra `train`)")

    def own() -> None:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
            torch.ones(4) + 1
        assert [event.key for event in profiler.key_averages() if event.key == "aten::add"] == ["aten::add"]

    found = alone(tmp_path, steps=10, at={step: own})
    # in step 3 a window was open, which is lost; in step 5 one was kept, which is written first
    assert list(traced(found).values()) == ([[7, 8]] if step == 3 else [[2, 3], [7, 8]])
    assert (step == 3) == any(event["kind"] == "window_failed" for event in found.events)


def test_no_window_opens_while_the_program_profiles_itself(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed (extra `train`)")
    profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
    found = alone(tmp_path, steps=10, at={1: profiler.start, 4: profiler.stop})
    assert list(traced(found).values()) == [[7, 8]]
    (skipped,) = [event for event in found.events if event["kind"] == "window_skipped"]
    assert skipped["first"] == 2 and "another profiler" in skipped["why"]


def test_a_window_with_stacks_has_them_and_ends_an_earlier_recording(tmp_path: Path) -> None:
    def ask() -> None:
        (tmp_path / "request-window").write_text("steps=1 stacks")
        time.sleep(2.5)  # requests are looked for about once a second

    found = alone(tmp_path, steps=9, at={4: ask}, most=2)
    first, second = traced(found).items()
    assert first[1] == [2, 3] and second[1] == [5]
    trace = json.loads(gzip.decompress((found.folder / "traces" / second[0]).read_bytes()))
    assert any(event.get("cat") == "python_function" for event in trace["traceEvents"])


def test_windows_are_bounded_in_number_and_in_memory(tmp_path: Path) -> None:
    found = alone(tmp_path / "number", steps=20, most=2)
    assert list(traced(found).values()) == [[2, 3], [7, 8]]
    assert [event["why"] for event in found.events if event["kind"] == "window_skipped"] == [
        "as many windows as a run may have are there"
    ] * 2
    kept: list[bytes] = []
    found = alone(tmp_path / "memory", steps=10, at={2: lambda: kept.append(b"x" * (64 << 20))}, most_bytes=32 << 20)
    assert list(traced(found).values()) == [[2]]  # cut short after the step that took the memory
    assert found.events and next(e for e in found.events if e["kind"] == "window")["cut_short"] == "more than 32 MB"


# ---- agreement, by hand ----------------------------------------------------------------------------------------------


class Board:
    """A board in memory; `broken`: how a call goes wrong."""

    kind = "store"

    def __init__(self, broken: str = "") -> None:
        self.texts: dict[int, str] = {}
        self.broken = broken

    def put(self, number: int, text: str) -> str:
        return self.texts.setdefault(number, text)

    def get(self, number: int) -> str | None:
        if self.broken == "raises":
            raise RuntimeError("Connection reset by peer")
        if self.broken == "hangs":
            time.sleep(60)
        return self.texts.get(number)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "POLL_S", 0.01)
    monkeypatch.setattr(windows, "STUCK_S", 0.05)


def stepped(ranks: list[Windows], steps: int = 60, wish_at: int = 12) -> list[list[Window]]:
    """The windows that come due while these ranks step together and the first wishes one."""
    found: list[list[Window]] = [[] for _ in ranks]
    for rank in ranks:
        rank.start()
    for step in range(steps):
        if step == wish_at:
            ranks[0].wish("request")
        for rank, windows_ in zip(ranks, found, strict=True):
            window = rank.due(step)
            rank.watch()
            if window is not None:
                assert window.first == step + 1
                windows_.append(window)
        time.sleep(0.02)
    for rank in ranks:
        rank.stop()
    return found


def pair(*boards: Any, records: Records) -> list[Windows]:
    return [Windows(Schedule(), [lambda b=b: b for b in boards], records) for _ in range(2)]


@pytest.mark.usefixtures("quick")
def test_all_ranks_open_the_window_that_one_wished(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "AHEAD_S", 0.3)
    records = Records()
    first, second = stepped(pair(Board(), records=records))
    assert first == second and len(first) == 1
    assert first[0].agreed == "store" and records.events == []


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("broken", ["raises", "hangs"])
def test_files_of_the_run_directory_stand_in_for_a_store_that_does_not_answer(
    broken: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(windows, "AHEAD_S", 0.3)
    records = Records()
    first, second = stepped(pair(Board(broken), FileBoard(str(tmp_path / "agreed")), records=records), wish_at=25)
    assert first == second and [window.agreed for window in first] == ["files"]
    assert {event["agreed_by"] for event in records.events} == {"files in the run directory"}


@pytest.mark.usefixtures("quick")
def test_a_rank_without_any_board_decides_alone_and_says_so() -> None:
    records = Records()
    alone = Windows(Schedule(), [lambda: Board("raises")], records)
    (found,) = stepped([alone])
    assert [window.agreed for window in found] == ["alone"]
    assert records.events == [
        {"kind": "windows", "agreed_by": "this rank alone", "why": "store: Connection reset by peer"},
    ]  # fmt: skip


def test_more_ranks_look_less_often_and_agree_further_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "POLL_S", 0.001)
    firsts = []
    for ranks in (2, 64, 128):
        board = Board()
        rank = Windows(Schedule(), [lambda board=board: board], Records(), ranks)
        rank._step_s = 0.1
        rank.start()
        rank.wish("request")
        until = time.monotonic() + 20
        while not board.texts and time.monotonic() < until:
            time.sleep(0.001)
        rank.stop()
        firsts.append(json.loads(board.texts[0])["first"])
    assert firsts == [31, 31, 61]  # 3 s and 6 s of steps of 0.1 s, after the next one


def test_one_process_needs_no_board() -> None:
    alone = Windows(Schedule(), [], Records())
    alone.due(7)
    alone.wish("request", steps=5)
    assert alone.due(8) == Window(9, 13, "request", agreed="alone")


def test_a_rank_that_learns_of_a_window_too_late_says_so() -> None:
    records = Records()
    late = Windows(Schedule(), [], records)
    late.wish("request")
    assert late.due(30) is None
    assert [event["kind"] for event in records.events] == ["window_missed"]


def test_the_first_text_on_a_board_of_files_stays(tmp_path: Path) -> None:
    one, other = FileBoard(str(tmp_path)), FileBoard(str(tmp_path))
    assert one.get(0) is None
    assert one.put(0, "first") == "first"
    assert other.put(0, "second") == "first" and other.get(0) == "first"


def test_the_first_text_in_a_store_stays_and_a_store_that_is_gone_is_an_error() -> None:
    pytest.importorskip("torch", reason="torch is not installed (extra `train`)")
    import torch.distributed as dist

    server = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    client = dist.TCPStore("127.0.0.1", server.port, is_master=False, wait_for_workers=False)
    one, other = StoreBoard(server, "a"), StoreBoard(client, "a")
    assert one.get(0) is None
    assert one.put(0, "first") == "first"
    assert other.put(0, "second") == "first" and other.get(0) == "first"
    assert StoreBoard(client, "b").get(0) is None  # another session's
    del server, one
    with pytest.raises(RuntimeError):
        for _ in range(100):
            other.get(1)
            time.sleep(0.05)


def test_a_board_of_files_needs_a_directory_that_all_ranks_share(tmp_path: Path) -> None:
    Path(rank_folder(tmp_path, 0, "0" * 8).path).mkdir(parents=True)
    assert file_board(str(tmp_path), 2) is None
    Path(rank_folder(tmp_path, 1, "1" * 8).path).mkdir()
    assert file_board(str(tmp_path), 2) is not None


# ---- when ------------------------------------------------------------------------------------------------------------


def test_the_modes_have_their_schedules() -> None:
    assert schedule_of("pulse", None).first is None
    assert schedule_of("window", None).window(20) == Window(20, 22, "schedule")
    assert schedule_of("window", 50).window(100) == Window(100, 102, "schedule")
    assert schedule_of("window", {"first": 3, "steps": 1}).window(3) == Window(3, 3, "schedule")
    full = schedule_of("full", None).window(1)
    assert full is not None and full.last == windows.MOST_STEPS


@pytest.mark.parametrize("given", [{"first": -1}, {"steps": 0}, {"steps": 10**6}, {"wait": 3}, "often"])
def test_a_schedule_that_means_nothing_is_refused(given: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        schedule_of("window", given)


def test_slower_steps_are_a_change_once() -> None:
    change, said = Change(), []
    for step in range(REFERENCE + 200):
        said.append(change.step(100 + step % 5 if step < REFERENCE + 40 else 150 + step % 5))
    assert [sentence for sentence in said if sentence] == [s for s in said if s][:1]
    at = next(i for i, sentence in enumerate(said) if sentence)
    assert REFERENCE + 40 < at <= REFERENCE + 40 + RECENT


@pytest.mark.parametrize("spike", [(), (70, 90, 110), tuple(range(80, 200, 10))])
def test_single_slow_steps_are_no_change(spike: tuple[int, ...]) -> None:
    change = Change()
    assert not any(change.step(900 if step in spike else 100 + step % 9) for step in range(300))


def test_noise_is_no_change() -> None:
    change = Change()  # steps of two kinds, mixed
    assert not any(change.step(100 if step * 7919 % 13 < 6 else 200) for step in range(1000))


# ---- requests and traces ---------------------------------------------------------------------------------------------


def test_each_touch_is_one_request_and_old_ones_ask_for_nothing(tmp_path: Path) -> None:
    file = tmp_path / "request-window"
    file.touch()
    watch = Watch(str(tmp_path), "window")
    assert watch.asked() is None
    time.sleep(0.02)
    file.write_text("steps=7 stacks")
    asked = watch.asked()
    assert asked is not None and asked.number("steps") == 7 and "stacks" in asked.words
    assert watch.asked() is None


@pytest.mark.parametrize("words", ["steps=-1", "steps=9999999999", "steps=٣", "steps=", "step=3"])
def test_nonsense_in_a_request_is_no_number(tmp_path: Path, words: str) -> None:
    watch = Watch(str(tmp_path), "window")
    (tmp_path / "request-window").write_text(words)
    asked = watch.asked()
    assert asked is not None and asked.number("steps") is None


def test_links_and_foreign_files_are_no_requests(tmp_path: Path) -> None:
    watch = Watch(str(tmp_path), "window")
    (tmp_path / "elsewhere").touch()
    (tmp_path / "request-window").symlink_to(tmp_path / "elsewhere")
    assert watch.asked() is None


def test_a_trace_is_cut_to_its_window_and_stays_json(tmp_path: Path) -> None:
    def event(kind: str, at: float) -> str:
        return f'  {{\n    "ph": "{kind}", "name": "e{at}",\n    "ts": {at}, "pid": 1\n  }}'

    events = [event("M", 0), event("X", 1e6), event("X", 5e6), event("X", 9e6), event("i", 9.5e6)]
    raw, final = tmp_path / "raw", tmp_path / "cut.json.gz"
    raw.write_text('{\n  "baseTimeNanoseconds": 1000,\n  "traceEvents": [\n' + ",\n".join(events) + "\n  ]}")
    aside.finish(str(raw), str(final), (4_000_001_000, 6_000_001_000))
    cut = json.loads(gzip.decompress(final.read_bytes()))
    # metadata stays, and the last event, which ends the list
    assert [e["name"] for e in cut["traceEvents"]] == ["e0", "e5000000.0", "e9500000.0"]
    assert final.stat().st_mode & 0o777 == 0o600


def test_a_child_that_fails_is_told_from_one_that_wrote(tmp_path: Path) -> None:
    good = aside.Child(lambda: (tmp_path / "written").touch())
    assert good.ended(wait_s=20) is True and (tmp_path / "written").exists()
    bad = aside.Child(lambda: (tmp_path / "no" / "folder").touch())
    assert bad.ended(wait_s=20) is False


def test_a_child_that_stands_still_can_be_ended() -> None:
    child = aside.Child(lambda: time.sleep(60))
    assert child.ended() is None
    child.kill()
