"""The files of a run directory are read whole or in part, whatever was killed, cut, damaged or planted there."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from runs_made import Job, append

from rankscope.analyzers.pulse.readers import lines, pulse
from rankscope.analyzers.pulse.readers.folder import read_folder, read_manifest
from rankscope.analyzers.pulse.readers.pulse import read_pulse
from rankscope.analyzers.pulse.readers.samples import read_events, read_samples
from rankscope.collector.run_dir import MANIFEST, PULSE, RankFolder


def written(tmp_path: Path, *records: object) -> str:
    """A file of lines; text stands as it is."""
    path = tmp_path / PULSE
    path.write_text("".join(r if isinstance(r, str) else json.dumps(r) + "\n" for r in records))
    return str(path)


STEP = {"step": 4, "begin_ns": 10**18, "wall_ns": 7, "stages": {"data": 2, "forward": 5}, "wait": {"data": 0, "forward": 1}}


def test_a_line_becomes_a_row_and_what_it_lacks_is_absent(tmp_path: Path) -> None:
    found = read_pulse(written(tmp_path, STEP, {"step": 5}))
    steps = found.steps
    assert found.problems == [] and found.lines == 2 and steps.step.tolist() == [4, 5]
    assert steps.forward_ns.tolist() == [5, 0] and steps.valid("forward_ns").tolist() == [True, False]
    assert steps.backward_ns.tolist() == [0, 0] and steps.valid("backward_ns").tolist() == [True, False]
    assert steps.wall_ns.tolist() == [7, 0]
    assert not steps.valid("gc_ns").any() and not steps.valid("forward_device_ns").any()


def test_a_stage_with_time_and_without_wait_waited_for_an_unknown_part_of_it(tmp_path: Path) -> None:
    steps = read_pulse(written(tmp_path, {"step": 0, "stages": {"data": 2, "forward": 5}, "wait": {"data": 1}})).steps
    assert steps.valid("data_wait_ns")[0] and not steps.valid("forward_wait_ns")[0]
    assert steps.valid("backward_wait_ns")[0]  # no time, no wait


def test_a_step_without_its_length_is_as_long_as_its_stages(tmp_path: Path) -> None:
    assert read_pulse(written(tmp_path, {"step": 0, "stages": {"data": 2, "other": 5}})).steps.wall_ns.tolist() == [7]


def test_a_last_line_that_was_cut_off_is_no_record_and_is_said(tmp_path: Path) -> None:
    found = read_pulse(written(tmp_path, STEP, json.dumps(STEP | {"step": 5})))
    assert found.steps.step.tolist() == [4]
    assert "cut off" in found.problems[0]


def test_damaged_lines_are_counted_and_the_others_kept(tmp_path: Path) -> None:
    bad = ["{\n", "null\n", "[1]\n", "\x00\x00\n"]
    bad += [f"{text}\n" for text in ('{"step": -1}', '{"step": 1e3}', '{"step": 9, "wall_ns": 1e30}', '{"step": "3"}')]
    found = read_pulse(written(tmp_path, STEP, *bad, STEP | {"step": 9}))
    assert found.steps.step.tolist() == [4, 9]
    assert found.problems == [f"{len(bad)} lines are no record and left out"]


def test_a_line_too_long_to_be_one_is_left_out_wherever_it_lies(tmp_path: Path) -> None:
    long = '{"step": 1, "x": "' + "y" * (lines.MOST_LINE_BYTES + 10) + '"}\n'
    far = '{"step": 2, "x": "' + "y" * (3 * lines._PIECE) + '"}\n'
    found = read_pulse(written(tmp_path, STEP, long, STEP | {"step": 5}, far, STEP | {"step": 6}))
    assert found.steps.step.tolist() == [4, 5, 6]
    assert len(found.problems) == 1 and found.problems[0].startswith("2 lines are longer")


def test_deep_nesting_costs_one_line(tmp_path: Path) -> None:
    deep = '{"step": 1, "log": ' + "[" * 30_000 + "]" * 30_000 + "}\n"
    assert read_pulse(written(tmp_path, deep, STEP)).steps.step.tolist() == [4]


def test_a_step_counted_twice_is_kept_once_the_later_record(tmp_path: Path) -> None:
    found = read_pulse(written(tmp_path, STEP, STEP | {"step": 5}, STEP | {"wall_ns": 99}))
    assert found.steps.step.tolist() == [4, 5] and found.steps.wall_ns.tolist() == [99, 7]
    assert "counted twice" in found.problems[0]


def test_values_that_are_no_numbers_are_read_and_names_are_bounded(tmp_path: Path) -> None:
    log = {f"n{i}": i for i in range(pulse.MOST_NAMES + 5)}
    found = read_pulse(written(tmp_path, '{"step": 0, "log": {"loss": NaN, "a": Infinity, "b": "inf", "c": [1], "d": null}}\n',
                               {"step": 1, "log": log}))  # fmt: skip
    values = dict(zip(found.logged.columns["name"][:3], found.logged.columns["value"][:3].tolist(), strict=True))
    assert np.isnan(values["loss"]) and values["a"] == values["b"] == float("inf")
    assert len(set(found.logged.columns["name"].tolist())) == pulse.MOST_NAMES


def test_of_a_long_run_every_nth_step_is_kept_but_no_bad_value_is_lost(tmp_path: Path) -> None:
    rows = [{"step": n, "log": {"loss": 1.0}} for n in range(20)]
    found = read_pulse(written(tmp_path, *rows, '{"step": 21, "log": {"loss": NaN}}\n'), every=5)
    assert found.steps.step.tolist() == [0, 5, 10, 15] and found.lines == 21
    assert found.logged.step.tolist() == [0, 5, 10, 15, 21]


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=2000))
def test_no_bytes_make_a_reader_fail(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.mktemp("bytes") / "x.jsonl"
    path.write_bytes(content)
    read_pulse(str(path))
    read_events(str(path))
    read_samples(str(path))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
KEYS = (
    "step", "begin_ns", "wall_ns", "stages", "wait", "queued", "device", "gc_ns", "memory", "log", "hooks_ns", "kind",
    "unix_ns",
)  # fmt: skip
OF_MANIFEST = ("rank", "world_size", "probes", "job", "overhead", "groups", "host", "ended", "attempt", "mode")


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.dictionaries(st.sampled_from(KEYS), json_values), max_size=5),
    st.dictionaries(st.sampled_from(OF_MANIFEST), json_values),
)
def test_odd_values_under_known_keys_end_in_words(
    tmp_path_factory: pytest.TempPathFactory, records: list[dict[str, object]], manifest: dict[str, object]
) -> None:
    place = tmp_path_factory.mktemp("odd")
    for name in (PULSE, "events.jsonl", "nvml.jsonl", "host.jsonl"):
        append(place, name, *records)
    (place / MANIFEST).write_text(json.dumps({"rank": 3} | manifest))
    folder = RankFolder(str(place), 3, "00000000")
    process = read_folder(folder, *read_manifest(folder))
    assert process.rank == 3 and isinstance(process.manifest.probes, dict)


def test_what_is_no_regular_file_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / PULSE)
    (tmp_path / "events.jsonl").symlink_to("/etc/passwd")
    assert read_pulse(str(tmp_path / PULSE)).problems == ["is not a regular file"]
    assert "cannot be opened" in read_events(str(tmp_path / "events.jsonl"))[1][0]
    assert "cannot be opened" in read_pulse(str(tmp_path / "nothing")).problems[0]


def test_figures_of_several_devices_keep_their_index(tmp_path: Path) -> None:
    path = tmp_path / "nvml.jsonl"
    append(tmp_path, "nvml.jsonl", {"unix_ns": 5, "device": 2, "power_w": 300.5, "errors": {"replay": 4}, "name": "H100"},
           {"unix_ns": 6, "devices": [{"device": 0, "power_w": 1}, {"device": 1, "power_w": 2}]})  # fmt: skip
    samples, problems = read_samples(str(path))
    assert problems == []
    rows = list(zip(samples.columns["device"].tolist(), samples.columns["name"], samples.columns["value"], strict=True))
    assert rows == [(2, "power_w", 300.5), (2, "errors.replay", 4.0), (0, "devices.power_w", 1.0), (1, "devices.power_w", 2.0)]


def test_a_folder_without_a_manifest_is_a_rank_that_was_killed_early(tmp_path: Path) -> None:
    folder = Job(ranks=1, steps=3).write(tmp_path)[0]
    (folder / MANIFEST).unlink()
    rank_folder = RankFolder(str(folder), 0, "00000000")
    process = read_folder(rank_folder, *read_manifest(rank_folder))
    assert process.rank == 0 and len(process.steps) == 3
    assert "killed before it could write one" in process.problems[0]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"rank": "3"}', "\x00" * 50, '{"rank": 1e400}'])
def test_a_damaged_manifest_leaves_the_rank_of_the_folder(tmp_path: Path, text: str) -> None:
    (tmp_path / MANIFEST).write_text(text)
    manifest, problems = read_manifest(RankFolder(str(tmp_path), 7, "00000000"))
    assert manifest.rank == 7 and problems == ["its manifest is damaged"]


def test_a_manifest_of_another_rank_does_not_overrule_its_folder(tmp_path: Path) -> None:
    (tmp_path / MANIFEST).write_text(json.dumps({"rank": 1, "world_size": "many", "groups": 5, "steps": -4}))
    manifest, problems = read_manifest(RankFolder(str(tmp_path), 7, "00000000"))
    assert (manifest.rank, manifest.world_size, manifest.groups, manifest.steps) == (7, 1, [], 0)
    assert len(problems) == 4
