"""A run directory is recognised, its attempts and runs are told apart, and its traces are completed by its manifests."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from runs_made import BEGIN, MS, Job, append

import rankscope
from rankscope.analyzers.errors import BadSelection, NothingToRead
from rankscope.analyzers.loading import LoadOptions, load_run
from rankscope.analyzers.loading.run_dirs import read_recording, recorded_runs
from rankscope.analyzers.run import DISTRIBUTED_INFO, MANIFEST
from rankscope.collector import run_dir
from rankscope.collector.run_dir import PULSE, rank_folder
from rankscope.simulator import Scenario, simulate

HOUR = 3600 * 10**9


def load(*paths: Path, **options: object) -> rankscope.run.Run:
    return rankscope.load(*paths, cache=False, jobs=1, **options)  # type: ignore[arg-type]


def with_traces(folders: list[Path], window: int = 0, *, silent: bool = False, base_ns: int = 0) -> None:
    """A window of the profiler in each folder; `silent`: the trace does not say whose it is."""
    apart = folders[0].parent / f"simulated-{window}"
    apart.mkdir()
    files = simulate(Scenario(ranks=len(folders), steps=5, layers=2, seed=window)).write(apart)
    for folder, file in zip(folders, files, strict=True):
        found = json.loads(file.read_text())
        if silent:
            del found["distributedInfo"]
        found["baseTimeNanoseconds"] += base_ns
        (folder / "traces").mkdir(exist_ok=True)
        (folder / "traces" / f"window-{window}.json").write_text(json.dumps(found))
    shutil.rmtree(apart)


@pytest.mark.parametrize("below", ["", "ranks", ".."])
def test_a_run_directory_is_found_where_it_is_named_and_below(tmp_path: Path, below: str) -> None:
    place = tmp_path / "job"
    Job(ranks=3, steps=12).write(place)
    (place / "notes.json").write_text("{}")
    run = load(place / below)
    assert run.ranks == [0, 1, 2] and run.analysis.pulse is not None
    assert run.analysis.run.unreadable == ()
    assert run.id.startswith("job-2026")


def test_files_of_a_run_directory_are_not_taken_for_traces(tmp_path: Path) -> None:
    folder = Job(ranks=1, steps=4).write(tmp_path / "job")[0]
    (folder / "flight_recorder-stop.json").write_text('{"version": "2.10", "entries": []}')
    (tmp_path / "job" / "ranks" / "stray").mkdir()
    assert load(tmp_path).analysis.run.unreadable == ()


def test_a_folder_that_only_looks_like_one_is_searched_for_traces(tmp_path: Path) -> None:
    (tmp_path / "ranks" / "rank0").mkdir(parents=True)
    simulate(Scenario(ranks=1, steps=4, layers=2)).write(tmp_path / "ranks" / "rank0")
    assert load(tmp_path).analysis.run.recording is None
    shutil.rmtree(tmp_path / "ranks" / "rank0")
    with pytest.raises(NothingToRead):
        load(tmp_path)


def test_the_newest_run_is_reported_and_the_others_are_listed(tmp_path: Path) -> None:
    Job(ranks=2, steps=9, run_id="a").write(tmp_path / "one")
    Job(ranks=2, steps=10, run_id="b", begin_ns=BEGIN + HOUR, seed=2).write(tmp_path / "one")
    Job(ranks=2, steps=11, run_id="a", begin_ns=BEGIN + 2 * HOUR, seed=3).write(tmp_path / "two")
    run = load(tmp_path)
    assert run.id.startswith("two-") and len(run.analysis.run.other_runs) == 2
    assert any("3 runs were recorded here" in text for text in run.analysis.run.warnings)
    oldest = run.analysis.run.other_runs[-1]
    assert oldest.ranks == [0, 1] and len(oldest.files) == 2
    chosen = load(tmp_path, run=oldest.id)
    assert chosen.analysis.pulse is not None and len(chosen.analysis.pulse.numbers) == 9
    with pytest.raises(BadSelection, match="fits several"):
        load(tmp_path, run="one-")


def test_a_run_that_was_started_again_under_the_same_name_is_another(tmp_path: Path) -> None:
    Job(ranks=2, steps=9).write(tmp_path)
    Job(ranks=2, steps=12, begin_ns=BEGIN + HOUR, seed=2).write(tmp_path)
    run = load(tmp_path)
    assert run.analysis.pulse is not None and len(run.analysis.pulse.numbers) == 12
    assert run.analysis.run.recording is not None and run.analysis.run.recording.earlier == []
    assert len(run.analysis.run.other_runs) == 1


def test_attempts_of_one_run_belong_together_and_the_last_with_steps_is_reported(tmp_path: Path) -> None:
    Job(ranks=2, steps=20).write(tmp_path)
    Job(ranks=2, steps=15, attempt=1, begin_ns=BEGIN + HOUR).write(tmp_path)
    failed = {"ended": "exception: RuntimeError: x"}
    Job(ranks=2, steps=0, attempt=2, begin_ns=BEGIN + 2 * HOUR, manifest=failed).write(tmp_path)
    recording = load(tmp_path).analysis.run.recording
    assert recording is not None
    assert [p.manifest.attempt for p in recording.processes] == [1, 1]
    assert [p.manifest.attempt for p in recording.earlier] == [0, 0]
    assert [p.manifest.attempt for p in recording.later] == [2, 2]


def test_a_rank_without_a_folder_is_missing_and_one_not_asked_for_is_not(tmp_path: Path) -> None:
    folders = Job(ranks=4, steps=12).write(tmp_path)
    assert load(tmp_path, ranks=[0, 2]).diagnose().run.missing_ranks == []
    shutil.rmtree(folders[3])
    diagnosis = load(tmp_path).diagnose()
    assert diagnosis.run.missing_ranks == [3] and diagnosis.run.world_size == 4
    assert any("rank 3 of 4 has no folder" in text for text in diagnosis.warnings)


def test_damaged_files_are_named_and_make_a_strict_report_fail(tmp_path: Path) -> None:
    folders = Job(ranks=2, steps=12).write(tmp_path)
    with (folders[1] / PULSE).open("a") as file:
        file.write('{"step": 12, "wal')
    run = load(tmp_path)
    assert run.damaged == [str(folders[1] / PULSE)]
    assert any(f"{folders[1].name}/{PULSE}: its last line is cut off" in text for text in run.diagnose().warnings)


def test_traces_of_a_run_directory_are_analysed_with_its_pulse(tmp_path: Path) -> None:
    with_traces(Job(ranks=2, steps=12).write(tmp_path))
    diagnosis = load(tmp_path).diagnose()
    assert {file.rank_source for file in diagnosis.run.files} == {DISTRIBUTED_INFO}
    assert diagnosis.attribution and diagnosis.pulse is not None and diagnosis.job is not None
    assert diagnosis.rules.failed == []


def test_a_manifest_says_what_a_trace_does_not(tmp_path: Path) -> None:
    groups = [{"name": "7", "description": "dp", "ranks": [0, 1]}, "odd", {"name": "8", "ranks": "all"}]
    with_traces(Job(ranks=2, steps=12, manifest={"groups": groups, "backend": "xccl"}).write(tmp_path), silent=True)
    loaded = load(tmp_path).analysis.run
    assert [(found.rank, found.rank_source) for found in loaded.ranks] == [(0, MANIFEST), (1, MANIFEST)]
    assert loaded.world_size == 2
    meta = loaded.ranks[1].record.meta
    assert meta.backend == "xccl" and [group.ranks for group in meta.groups] == [(0, 1), None]


def test_of_several_windows_the_newest_whole_one_is_analysed(tmp_path: Path) -> None:
    folders = Job(ranks=2, steps=12).write(tmp_path)
    with_traces(folders, 0)
    with_traces(folders, 1, base_ns=HOUR)
    with_traces(folders[:1], 2, base_ns=2 * HOUR)
    (folders[0] / "traces" / "window-2.json").write_text('{"traceEvents": [')
    run = load(tmp_path).analysis.run
    assert {Path(found.path).name for found in run.ranks} == {"window-1.json"}
    assert [[Path(file).name for file in other.files] for other in run.other_runs] == [["window-0.json"] * 2]
    other = load(tmp_path, run=run.other_runs[0].id).analysis.run
    assert {Path(found.path).name for found in other.ranks} == {"window-0.json"} and other.recording is not None


def test_windows_that_cannot_be_read_leave_the_pulse(tmp_path: Path) -> None:
    folders = Job(ranks=2, steps=12).write(tmp_path)
    (folders[0] / "traces").mkdir()
    (folders[0] / "traces" / "w.json").write_text("{}")
    run = load(tmp_path)
    assert run.analysis.pulse is not None and run.analysis.run.ranks == ()
    assert [found.path for found in run.analysis.run.unreadable] == [str(folders[0] / "traces" / "w.json")]


def test_a_trace_of_one_rank_leaves_the_pulse_to_the_others(tmp_path: Path) -> None:
    folders = Job(ranks=4, steps=40, late={(2, "forward"): 40}).write(tmp_path)
    with_traces(folders[:1])
    diagnosis = load(tmp_path).diagnose()
    assert diagnosis.run.ranks == [0, 1, 2, 3] and [file.rank for file in diagnosis.run.files] == [0]
    late = [finding for finding in diagnosis.findings if finding.rule == "straggler-rank"]
    assert [(finding.ranks, finding.stage) for finding in late] == [([2], "forward")]


def test_steps_and_ranks_can_be_selected(tmp_path: Path) -> None:
    Job(ranks=3, steps=30).write(tmp_path)
    run = load(tmp_path, steps=range(10, 20), ranks=[0, 1])
    assert run.analysis.pulse is not None
    assert run.analysis.pulse.steps == list(range(10, 20)) and run.analysis.pulse.ranks == [0, 1]
    with pytest.raises(BadSelection, match="has steps 0-29"):
        load(tmp_path, steps=[77])
    with pytest.raises(BadSelection, match="has ranks 0-2"):
        load(tmp_path, ranks=[5])


def test_of_a_long_run_the_same_steps_are_looked_at_on_every_rank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rankscope.analyzers.loading.run_dirs.MOST_STEPS", 20)
    Job(ranks=2, steps=90, change=lambda rank, step, record: record if rank or step % 7 else None).write(tmp_path)
    run = load_run([str(tmp_path)], LoadOptions(use_cache=False))
    assert run.recording is not None and run.recording.every > 1
    every = run.recording.every
    assert all(set(process.steps.step.tolist()) <= set(range(0, 90, every)) for process in run.recording.processes)
    assert any("is looked at" in text for text in run.warnings)


def test_nothing_in_a_run_directory_depends_on_when_it_is_read(tmp_path: Path) -> None:
    folders = Job(ranks=2, steps=12).write(tmp_path)
    append(folders[0], "events.jsonl", {"kind": "gc", "unix_ns": BEGIN + MS, "step": 3, "pause_ns": 5})
    assert load(tmp_path).diagnose() == load(tmp_path).diagnose()


@pytest.mark.parametrize("text", [None, "", '{"rank": "0"}'], ids=["not there", "empty", "another type"])
def test_a_rank_whose_manifest_is_lost_is_no_lost_rank(text: str | None, tmp_path: Path) -> None:
    Job(ranks=3, steps=12, attempt=0).write(tmp_path)
    folders = Job(ranks=3, steps=12, attempt=1, begin_ns=BEGIN + 10**12).write(tmp_path)
    (folders[1] / run_dir.MANIFEST).unlink()
    if text is not None:
        (folders[1] / run_dir.MANIFEST).write_text(text)
    (run,) = recorded_runs([str(tmp_path)])
    recording = read_recording(run, None)
    assert [process.rank for process in recording.processes] == [0, 1, 2] and not recording.missing_ranks
    assert len(recording.processes[1].steps) == 12 and any("manifest" in said for said in recording.warnings)


def test_folders_that_no_manifest_tells_apart_are_still_runs(tmp_path: Path) -> None:
    for attempt in (0, 1):
        for folder in Job(ranks=2, steps=12, attempt=attempt).write(tmp_path):
            (folder / run_dir.MANIFEST).unlink()
    runs = recorded_runs([str(tmp_path)])
    assert [[found.folder.rank for found in run.attempts[0]] for run in runs] == [[0, 1], [0, 1]]


def test_a_rank_beyond_the_world_is_of_another_run(tmp_path: Path) -> None:
    Job(ranks=2, steps=12).write(tmp_path)
    beyond = Path(rank_folder(tmp_path, 5, "0000ffff").path)
    beyond.mkdir()
    runs = recorded_runs([str(tmp_path)])
    assert [[found.folder.rank for found in run.attempts[0]] for run in runs] == [[0, 1], [5]]
